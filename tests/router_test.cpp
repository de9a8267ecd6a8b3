#include "server/routing/router.h"

#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "protocol/topic.h"
#include "tests/support/sanitized.h"

using namespace pulsegate;

namespace {

/// As the router sees a session.
struct Session : Subscriber {
    SubscriptionList subscriptions;
};

/// What a session is due of a message, with its identifiers in order.
using Due = std::tuple<QoS, bool, std::vector<std::uint32_t>>;
/// Of all sessions; null stands for a publisher's no-local.
using AllDue = std::map<const Session*, Due>;

/// Does what the router does, the simple way: a list, and every filter tried.
class Model {
public:
    bool subscribe(const Session& session, const std::string& filter, SubscribeOptions options,
                   std::uint32_t identifier) {
        return list_.insert_or_assign({&session, filter}, std::pair(options, identifier)).second;
    }
    bool unsubscribe(const Session& session, const std::string& filter) {
        return list_.erase({&session, filter}) > 0;
    }
    void unsubscribe_all(const Session& session) {
        std::erase_if(list_, [&](const auto& entry) { return entry.first.first == &session; });
    }
    AllDue match(const std::string& topic, const Session* publisher) const {
        AllDue all;
        for (const auto& [key, value] : list_) {
            const auto& [session, filter] = key;
            const auto& [options, identifier] = value;
            if (!topic_matches(filter, topic)) continue;
            const bool declined = options.no_local && session == publisher;
            auto& due = all[declined ? nullptr : session];
            if (declined) continue;
            auto& [qos, as_published, identifiers] = due;
            qos = std::max(qos, options.qos);
            as_published |= options.retain_as_published;
            if (identifier) identifiers.push_back(identifier);
        }
        for (auto& [session, due] : all)
            std::sort(std::get<2>(due).begin(), std::get<2>(due).end());
        return all;
    }
    std::size_t size() const { return list_.size(); }

private:
    std::map<std::pair<const Session*, std::string>, std::pair<SubscribeOptions, std::uint32_t>>
        list_;
};

AllDue match(Router& router, const std::string& topic, const Session* publisher) {
    AllDue all;
    const bool declined = router.match(std::string_view(topic), publisher, [&](const Match& match) {
        auto identifiers = match.identifiers;
        std::sort(identifiers.begin(), identifiers.end());
        const bool first =
            all.try_emplace(static_cast<const Session*>(match.subscriber),
                            Due{match.qos, match.retain_as_published, std::move(identifiers)})
                .second;
        CHECK_MESSAGE(first, "a session is visited twice for ", topic);
    });
    if (declined) all[nullptr];
    return all;
}

/// Topics and filters over a small alphabet, so that they meet often.
class Names {
public:
    explicit Names(std::mt19937& random) : random_(random) {}

    std::string topic() { return make({"a", "b", "", "$x", "cc"}, false); }
    std::string filter() { return make({"a", "b", "", "$x", "cc", "+", "+"}, true); }

private:
    std::string make(const std::vector<std::string>& parts, bool rest) {
        while (true) {
            std::string name;
            const auto levels = 1 + random_() % 4;
            for (std::size_t i = 0; i < levels; ++i) {
                if (i > 0) name += '/';
                if (rest && random_() % 5 == 0) {
                    name += '#';
                    break;
                }
                name += parts[random_() % parts.size()];
            }
            if (!name.empty()) return name;
        }
    }

    std::mt19937& random_;
};

struct Room {
    Room(const Room&) = delete;
    explicit Room(std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) sessions.push_back(std::make_unique<Session>());
    }
    ~Room() {
        for (auto& session : sessions) router.unsubscribe_all(session->subscriptions);
    }

    Interest interest;
    Router router{interest};
    std::vector<std::unique_ptr<Session>> sessions;
};

std::size_t listeners(Router& router, std::string_view topic) {
    std::size_t count = 0;
    router.match(topic, nullptr, [&](const Match&) { ++count; });
    return count;
}

}  // namespace

TEST_CASE("the router finds what trying every filter finds") {
    constexpr unsigned seeds = sanitized ? 7 : 20;  // each has another number of sessions
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        Names names(random);
        Room room(1 + seed % 7);
        Model model;
        auto& router = room.router;
        for (int step = 0; step < 3000; ++step) {
            Session& session = *room.sessions[random() % room.sessions.size()];
            const auto filter = names.filter();
            switch (random() % 16) {
                case 0:
                    router.unsubscribe_all(session.subscriptions);
                    model.unsubscribe_all(session);
                    break;
                case 1:
                case 2:
                case 3:
                case 4:
                    REQUIRE(router.unsubscribe(session.subscriptions, filter) ==
                            model.unsubscribe(session, filter));
                    break;
                default: {
                    const SubscribeOptions options{.qos = QoS{std::uint8_t(random() % 2)},
                                                   .no_local = random() % 3 == 0,
                                                   .retain_as_published = random() % 3 == 0};
                    const auto identifier = static_cast<std::uint32_t>(random() % 5);
                    REQUIRE(router.subscribe(session, session.subscriptions, filter, options,
                                             identifier) ==
                            model.subscribe(session, filter, options, identifier));
                }
            }
            REQUIRE(router.subscriptions() == model.size());
            const auto topic = names.topic();
            CAPTURE(topic);
            const Session* publisher = random() % 2 ? &session : nullptr;
            REQUIRE(match(router, topic, publisher) == model.match(topic, publisher));
        }
        for (auto& session : room.sessions) router.unsubscribe_all(session->subscriptions);
        CHECK(router.subscriptions() == 0);
        CHECK(match(router, names.topic(), nullptr).empty());
    }
}

TEST_CASE("levels of a wildcard filter go with its last subscriber, and not before") {
    Room room(2);
    auto& router = room.router;
    auto& first = *room.sessions[0];
    auto& second = *room.sessions[1];
    router.subscribe(first, first.subscriptions, "a/+/b", {}, 0);
    router.subscribe(second, second.subscriptions, "a/+/b", {}, 0);
    router.subscribe(second, second.subscriptions, "a/+/b/c/#", {}, 0);
    router.subscribe(second, second.subscriptions, "a/#", {}, 0);
    CHECK(listeners(router, "a/x/b") == 2);
    CHECK(router.unsubscribe(second.subscriptions, "a/+/b"));
    CHECK(listeners(router, "a/x/b") == 2);
    CHECK(router.unsubscribe(second.subscriptions, "a/#"));
    CHECK(listeners(router, "a/x/b") == 1);
    CHECK(router.unsubscribe(first.subscriptions, "a/+/b"));
    CHECK(listeners(router, "a/x/b") == 0);
    CHECK(listeners(router, "a/x/b/c") == 1);
    CHECK(listeners(router, "a/x/b/c/d/e") == 1);
}

TEST_CASE("filters are told apart by their text alone") {
    Room room(1);
    auto& router = room.router;
    auto& session = *room.sessions[0];
    CHECK(router.subscribe(session, session.subscriptions, "a", {}, 0));
    CHECK(router.subscribe(session, session.subscriptions, "a/", {}, 0));
    CHECK(router.subscribe(session, session.subscriptions, "/a", {}, 0));
    CHECK_FALSE(router.subscribe(session, session.subscriptions, "a", {}, 7));
    CHECK(listeners(router, "A") == 0);
    CHECK(router.subscriptions() == 3);
}

TEST_CASE("a router that still has subscriptions when it ends frees them") {
    constexpr std::size_t text_of_all = 64 * 1024 * 1024;
    const std::string plain(16 * 1024, 'x');
    const std::string wild = plain + "/+/#";
    Interest interest;
    const auto before = mallinfo2().uordblks;
    for (std::size_t text = 0; text < text_of_all; text += plain.size() + wild.size()) {
        Session session;
        Router router{interest};
        router.subscribe(session, session.subscriptions, plain, {}, 0);
        router.subscribe(session, session.subscriptions, wild, {}, 0);
    }
    // Exactly nothing, but for what the allocator keeps at hand.
    CHECK(mallinfo2().uordblks < before + text_of_all / 64);
}

TEST_CASE("long filters and topics of many levels are walked to their end") {
    Room room(1);
    auto& router = room.router;
    auto& session = *room.sessions[0];
    std::string filter = "+";
    std::string topic = "x";
    for (int i = 0; i < 126; ++i) {
        filter += "/+";
        topic += "/x";
    }
    router.subscribe(session, session.subscriptions, filter, {}, 0);
    CHECK(listeners(router, topic) == 1);
    CHECK(listeners(router, topic + "/x") == 0);
    CHECK(listeners(router, std::string(65'535, '/')) == 0);
    router.subscribe(session, session.subscriptions, "#", {}, 0);
    CHECK(listeners(router, std::string(65'535, '/')) == 1);
}
