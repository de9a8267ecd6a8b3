#include "server/session/users/presence.h"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace json = boost::json;

namespace {

class Phone : public Device {
public:
    explicit Phone(std::string client = "phone", WallMillis since = 0)
        : Device(std::move(client), since) {}
    Millis last_packet() const override { return last; }
    Millis limit() const override { return silence; }

    Millis last = 0;
    Millis silence = 0;
};

std::string text(const json::value& value) { return std::string(value.as_string()); }

}  // namespace

TEST_CASE("a user is online from the first device's coming to the last one's going") {
    Presence presence;
    User& user = presence.find_or_create("alice");
    CHECK_FALSE(user.online());
    Phone phone;
    Phone desk("desk");
    CHECK(presence.arrive(user, phone, 1000));
    CHECK((user.cause == Cause::login));
    CHECK_FALSE(presence.arrive(user, desk, 2000));
    CHECK(presence.online() == 1);
    CHECK(user.since == 1000);
    CHECK_FALSE(presence.depart(user, phone, Cause::timeout, 3000, 2900));
    CHECK(user.online());
    CHECK((user.cause == Cause::login));
    CHECK(presence.depart(user, desk, Cause::logout, 4000, 3900));
    CHECK_FALSE(user.online());
    CHECK((user.cause == Cause::logout));
    CHECK(user.since == 4000);
    CHECK(user.last_seen() == 3900);
    CHECK(presence.online() == 0);
}

TEST_CASE("last seen is that of the device that spoke last, whichever went last") {
    Presence presence;
    User& user = presence.find_or_create("alice");
    Phone phone;
    Phone desk("desk");
    presence.arrive(user, phone, 1000);
    presence.arrive(user, desk, 1000);
    presence.depart(user, phone, Cause::logout, 5000, 5000);
    presence.depart(user, desk, Cause::timeout, 9000, 3000);
    CHECK(user.last_seen() == 5000);
}

TEST_CASE("a device departs once") {
    Presence presence;
    User& user = presence.find_or_create("alice");
    Phone phone;
    presence.arrive(user, phone, 1000);
    CHECK(presence.depart(user, phone, Cause::shutdown, 2000, 2000));
    const auto version = user.version;
    CHECK_FALSE(presence.depart(user, phone, Cause::connection_lost, 3000, 3000));
    CHECK(user.version == version);
    CHECK((user.cause == Cause::shutdown));
    CHECK(presence.online() == 0);
}

TEST_CASE("a user's devices are on one list, connected devices first") {
    for (unsigned seed = 1; seed <= 50; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        Presence presence;
        User& user = presence.find_or_create("alice");
        std::vector<std::unique_ptr<Phone>> phones(10);
        std::set<const Device*> known;
        for (int step = 0; step < 300; ++step) {
            auto& phone = phones[random() % phones.size()];
            switch (phone ? random() % 4 : 0) {
                case 0:
                    if (!phone) phone = std::make_unique<Phone>();
                    if (phone->here)
                        presence.taken_over(user, *phone, step);
                    else
                        presence.arrive(user, *phone, step);
                    known.insert(phone.get());
                    break;
                case 1:
                    known.erase(phone.get());
                    presence.depart(user, *phone, Cause::logout, step, step);
                    phone.reset();
                    break;
                default: presence.depart(user, *phone, Cause::timeout, step, step);
            }
            std::set<const Device*> listed;
            bool here = true;
            std::size_t many = 0;
            for (const Device& device : user.devices) {
                listed.insert(&device);
                CHECK((here || !device.here));
                here = device.here;
                many += here;
            }
            CHECK(listed == known);
            CHECK(user.online() == (many > 0));
            CHECK(presence.online() == (many > 0));
        }
    }
}

TEST_CASE("a device that left the list while it was here is on it again once it is taken over") {
    Presence presence;
    User& user = presence.find_or_create("alice");
    Phone phone;
    presence.arrive(user, phone, 1000);
    phone.unlink();
    presence.taken_over(user, phone, 2000);
    CHECK(user.online());
    CHECK(&user.devices.front() == &phone);
    CHECK(presence.depart(user, phone, Cause::logout, 3000, 3000));
}

TEST_CASE("a takeover keeps the user online and since when, and has a version of its own") {
    Presence presence;
    User& user = presence.find_or_create("alice");
    Phone phone;
    presence.arrive(user, phone, 1000);
    const auto version = user.version;
    presence.taken_over(user, phone, 2000);
    CHECK(user.online());
    CHECK(user.since == 1000);
    CHECK((user.cause == Cause::taken_over));
    CHECK(user.version > version);
}

TEST_CASE("a version only grows, even when changes share a millisecond or the clock steps back") {
    Presence presence;
    User& user = presence.find_or_create("alice");
    Phone phone;
    std::uint64_t last = 0;
    const auto grows = [&] {
        CHECK(user.version > last);
        last = user.version;
    };
    for (const WallMillis now : {5000, 5000, 1, 4999, 6000, 0}) {
        presence.arrive(user, phone, now);
        grows();
        presence.taken_over(user, phone, now);
        grows();
        presence.depart(user, phone, Cause::timeout, now, now);
        grows();
    }
}

TEST_CASE("a forgotten user comes back with a greater version, even if the clock was set back") {
    Presence presence;
    std::uint64_t last = 0;
    for (const WallMillis now : {7000, 7001, 9000, 20, 10}) {
        User& user = presence.find_or_create("alice");
        Phone phone;
        presence.arrive(user, phone, now);
        CHECK(user.version > last);
        presence.depart(user, phone, Cause::logout, now, now);
        last = user.version;
        presence.forget_some(now + 1, 0);
        CHECK(presence.find("alice") == nullptr);
    }
}

TEST_CASE("after a crash versions begin at one that is above all that were told") {
    Presence presence;
    presence.begin_versions_at(9000);
    const auto restored = [&](const char* name, std::uint64_t version, Cause cause) {
        presence.restore({.name = name,
                          .version = version,
                          .since = 1000,
                          .last_seen = 1000,
                          .cause = static_cast<std::uint8_t>(cause)},
                         100);
        return presence.find(name)->version;
    };
    CHECK(restored("behind", 5000, Cause::logout) == 9000);
    CHECK(restored("ahead", 9500, Cause::logout) == 9500);
    CHECK(restored("was online", 5000, Cause::login) == 9000);
    const auto by_a_clock_before_1970 = static_cast<std::uint64_t>(-5000);
    CHECK(restored("broken", by_a_clock_before_1970, Cause::logout) == 9000);
    presence.finish_restoring();
    User& unknown = presence.find_or_create("unknown");
    Phone phone;
    presence.arrive(unknown, phone, 100);
    CHECK(unknown.version > 9000);
}

TEST_CASE("a changed user is visited after unchanged users, even if these are ahead of the clock") {
    Presence presence;
    presence.restore({.name = "ahead",
                      .version = 9500,
                      .since = 1000,
                      .last_seen = 1000,
                      .cause = static_cast<std::uint8_t>(Cause::logout)},
                     100);
    presence.finish_restoring();
    User& user = presence.find_or_create("alice");
    Phone phone;
    presence.arrive(user, phone, 100);
    CHECK(user.version >= 9500);
}

TEST_CASE("only users that have been offline for long are forgotten") {
    Presence presence;
    Phone phone;
    presence.arrive(presence.find_or_create("online"), phone, 1000);
    for (const char* name : {"long ago", "just now"}) {
        Phone gone;
        User& user = presence.find_or_create(name);
        presence.arrive(user, gone, 1000);
        presence.depart(user, gone, Cause::logout, name[0] == 'l' ? 2000 : 9000, 1000);
    }
    for (int second = 0; second < 61; ++second) presence.forget_some(5000, 0);
    CHECK(presence.users() == 2);
    CHECK(presence.find("long ago") == nullptr);
    CHECK(presence.find("just now") != nullptr);
    CHECK(presence.find("online")->online());
    CHECK(presence.online() == 1);
}

TEST_CASE("every due user is forgotten in time") {
    Presence presence;
    std::mt19937 random(7);
    std::map<std::string, Phone*> stay;
    std::vector<std::unique_ptr<Phone>> phones;
    for (int i = 0; i < 5000; ++i) {
        const auto name = "u" + std::to_string(i);
        User& user = presence.find_or_create(name);
        phones.push_back(std::make_unique<Phone>());
        presence.arrive(user, *phones.back(), 1000);
        if (random() % 3)
            presence.depart(user, *phones.back(), Cause::logout, 1000, 1000);
        else
            stay.emplace(name, phones.back().get());
    }
    for (int second = 0; second < 600; ++second) presence.forget_some(2000, 0);
    CHECK(presence.users() == stay.size());
    for (const auto& [name, phone] : stay) {
        User* const user = presence.find(name);
        REQUIRE(user != nullptr);
        presence.depart(*user, *phone, Cause::logout, 1000, 1000);
    }
    for (int second = 0; second < 600; ++second) presence.forget_some(2000, 0);
    CHECK(presence.users() == 0);
    presence.forget_some(2000, 0);
}

TEST_CASE("users that stay are visited, while many others come and are forgotten") {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        Presence presence;
        std::map<std::string, std::unique_ptr<Phone>> staying;
        int next = 0;
        const auto stay = [&] {
            const auto name = "s" + std::to_string(next++);
            auto phone = std::make_unique<Phone>();
            presence.arrive(presence.find_or_create(name), *phone, 1);
            staying.emplace(name, std::move(phone));
        };
        const auto pass = [&] { presence.find_or_create("p" + std::to_string(next++)); };
        const auto some = random() % 200;
        for (std::size_t i = 0; i < some; ++i) random() % 2 ? stay() : pass();

        std::set<std::string> expected;
        for (const auto& [name, phone] : staying) expected.insert(name);
        std::optional<PresencePosition> from = PresencePosition{};
        do {
            const auto most = 1 + random() % 20;
            std::size_t visited = 0;
            const auto before = *from;
            from = presence.visit(*from, most, [&](const User& user) {
                expected.erase(user.name);
                ++visited;
                return true;
            });
            CHECK(visited <= most);
            CHECK((!from || before < *from));
            for (auto changes = random() % 10; changes > 0; --changes) switch (random() % 3) {
                    case 0: stay(); break;
                    case 1: pass(); break;
                    default: presence.forget_some(1, 0);
                }
        } while (from);
        CHECK(expected.empty());
    }
}

TEST_CASE("only users that have changed since are visited, the latest change last") {
    Presence presence;
    std::vector<std::unique_ptr<Phone>> phones;
    const auto log_in = [&](const char* name, WallMillis now) {
        phones.push_back(std::make_unique<Phone>());
        presence.arrive(presence.find_or_create(name), *phones.back(), now);
    };
    log_in("a", 1000);
    log_in("b", 2000);
    log_in("c", 3000);
    User& a = *presence.find("a");
    presence.depart(a, *phones.front(), Cause::logout, 4000, 4000);
    const auto since = [&](std::uint64_t version) {
        std::string seen;
        presence.visit({.version = version}, 10, [&](const User& user) {
            seen += user.name;
            return true;
        });
        return seen;
    };
    CHECK(since(0) == "bca");
    CHECK(since(3000) == "ca");
    CHECK(since(3001) == "a");
    CHECK(since(a.version + 1).empty());
}

TEST_CASE("invented names don't make known users unknown") {
    Presence presence(10);
    Phone phone;
    User& regular = presence.find_or_create("regular");
    presence.arrive(regular, phone, 1000);
    presence.depart(regular, phone, Cause::logout, 61'000, 61'000);
    for (int i = 0; i < 20; ++i) {
        Phone invented;
        User& user = presence.find_or_create("invented" + std::to_string(i));
        presence.arrive(user, invented, 61'000);
        presence.depart(user, invented, Cause::logout, 61'000, 61'000);
    }
    constexpr Millis a_day = 24 * 3'600'000;
    for (int second = 0; second < 60; ++second) presence.forget_some(120'000, a_day);
    CHECK(presence.users() == 21);
    for (int second = 0; second < 600; ++second) presence.forget_some(130'000, a_day);
    CHECK(presence.users() <= 10);
    CHECK(presence.find("regular"));
}

TEST_CASE("a visitor that has enough ends the page there") {
    Presence presence;
    for (const char* name : {"a", "b", "c"}) presence.find_or_create(name);
    std::string seen;
    const auto visit = [&](PresencePosition from) {
        return presence.visit(from, 10, [&](const User& user) {
            seen += user.name;
            return false;
        });
    };
    CHECK_FALSE(visit(*visit(*visit({}))));
    CHECK(std::set<char>(seen.begin(), seen.end()) == std::set<char>{'a', 'b', 'c'});
    Presence nobody;
    CHECK_FALSE(nobody.visit({}, 10, [](const User&) { return true; }));
}

TEST_CASE("a visit that is not done with a user goes on with that user, though it was replaced") {
    Presence presence;
    for (const char* name : {"a", "b", "c"}) presence.find_or_create(name);
    std::string seen;
    const auto visit = [&](PresencePosition from, std::size_t until) {
        return presence.visit_entries(from, 10, [&](PresenceEntry& entry) {
            seen += entry.user_name();
            presence.replace(entry, *new User(entry.user_name()));
            delete static_cast<User*>(&entry);
            return seen.size() < until ? Visited::done : Visited::unfinished;
        });
    };
    auto from = visit({}, 1);
    REQUIRE(from);
    from = visit(*from, 3);
    REQUIRE(from);
    CHECK(seen == "aab");
    from = visit(*from, 5);
    REQUIRE(from);
    CHECK_FALSE(visit(*from, 10));
    CHECK(seen == "aabbcc");
}

TEST_CASE("a user as JSON has the documented fields") {
    Presence presence;
    User& user = presence.find_or_create("al\"ice");
    Phone phone("phone", 1'600'000'000'500);
    phone.last = 4000;
    presence.arrive(user, phone, 1'600'000'000'500);
    const auto online = json::parse(to_json(user, 5000, 1'600'000'010'000)).as_object();
    CHECK(text(online.at("user")) == "al\"ice");
    CHECK(text(online.at("state")) == "online");
    CHECK(text(online.at("since")) == "2020-09-13T12:26:40.500Z");
    CHECK(text(online.at("last_seen")) == "2020-09-13T12:26:49.000Z");  // a second ago
    CHECK(online.at("version").to_number<std::uint64_t>() == user.version);
    CHECK(text(online.at("cause")) == "login");
    Phone desk("desk");
    presence.arrive(user, desk, 1'600'000'000'900);
    presence.depart(user, desk, Cause::logout, 1'600'000'000'950, 1'600'000'000'900);
    CHECK(to_json(user, 5000, 1'600'000'010'000).find("desk") == std::string::npos);
    const auto& device = online.at("devices").as_array().at(0).as_object();
    CHECK(text(device.at("client")) == "phone");
    CHECK(text(device.at("since")) == "2020-09-13T12:26:40.500Z");
    CHECK(text(device.at("last_seen")) == "2020-09-13T12:26:49.000Z");

    presence.depart(user, phone, Cause::timeout, 1'600'000'040'000, 1'600'000'009'000);
    const auto offline = json::parse(to_json(user, 50'000, 1'600'000'050'000)).as_object();
    CHECK(text(offline.at("state")) == "offline");
    CHECK(text(offline.at("cause")) == "timeout");
    CHECK(text(offline.at("since")) == "2020-09-13T12:27:20.000Z");
    CHECK(text(offline.at("last_seen")) == "2020-09-13T12:26:49.000Z");
    CHECK(offline.at("devices").as_array().empty());
}

TEST_CASE("a change as JSON is one line with the documented fields") {
    const PresenceChange change{.time = 1'600'000'000'500,
                                .user = "a\nb",
                                .online = false,
                                .cause = Cause::connection_lost,
                                .version = 77,
                                .client = "c",
                                .silent = 1234};
    const auto line = to_json(change);
    CHECK(line.find('\n') == std::string::npos);
    const auto fields = json::parse(line).as_object();
    CHECK(fields.size() == 7);
    CHECK(text(fields.at("time")) == "2020-09-13T12:26:40.500Z");
    CHECK(text(fields.at("user")) == "a\nb");
    CHECK(text(fields.at("state")) == "offline");
    CHECK(text(fields.at("cause")) == "connection_lost");
    CHECK(fields.at("version").to_number<int>() == 77);
    CHECK(text(fields.at("client")) == "c");
    CHECK(fields.at("silent_ms").to_number<int>() == 1234);
}

TEST_CASE("long names are cut in the record of a change, at a character") {
    PresenceChange change{};
    change.user.assign(1023, 'u').append("\u00E9");
    change.client.assign(1024, 'c');
    const auto fields = json::parse(to_json(change)).as_object();
    CHECK(text(fields.at("user")) == change.user.substr(0, 1023).append("…"));
    CHECK(text(fields.at("client")) == std::string(1024, 'c'));
    change.client += std::string(60'000, 'c');
    CHECK(to_json(change).size() < 2500);
}

TEST_CASE("restored users are in the order of their changes, and later changes come behind them") {
    Presence presence;
    Phone phone;
    const auto left = static_cast<std::uint8_t>(Cause::logout);
    const auto online = static_cast<std::uint8_t>(Cause::login);
    presence.find_or_create("nobody");
    presence.restore({.name = "carol", .version = 3000, .since = 3000, .cause = left}, 9000);
    presence.restore({.name = "dave", .version = 4000, .since = 4000, .cause = online}, 9000);
    presence.restore({.name = "alice", .version = 1000, .since = 1000, .cause = left}, 9000);
    presence.restore({.name = "bob", .version = 2000, .since = 2000, .cause = left}, 9000);
    presence.finish_restoring();
    const auto order = [&] {
        std::string names;
        presence.visit({}, 10, [&](const User& user) {
            names += user.name + ' ';
            return true;
        });
        return names;
    };
    CHECK(order() == "nobody alice bob carol dave ");
    CHECK((presence.find("dave")->cause == Cause::login));
    CHECK(presence.find("dave")->since == 4000);
    presence.arrive(*presence.find("bob"), phone, 10'000);
    CHECK(order() == "nobody alice carol dave bob ");
}
