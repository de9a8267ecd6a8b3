#include "server/routing/retained.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

using namespace pulsegate;

namespace {

constexpr Retained::Limits plenty{1000, 1 << 20};

MessageRef message(std::string topic, std::string payload, std::uint64_t stamp,
                   Millis expires = 0) {
    return std::make_shared<Message>(Message{.topic = std::move(topic),
                                             .payload = std::move(payload),
                                             .properties = {},
                                             .expires = expires,
                                             .stamp = stamp,
                                             .sender = 1});
}

/// The topics that a filter selects, with their payloads, read page by page.
std::map<std::string, std::string> all(const Retained& retained, std::string_view filter,
                                       Millis now = 0, std::size_t page = 1000) {
    std::map<std::string, std::string> found;
    std::string after;
    do {
        std::size_t left = page;
        after = retained.visit(filter, after, left, now, [&](const MessageRef& message) {
            CHECK(found.emplace(message->topic, message->payload).second);
            return true;
        });
    } while (!after.empty());
    return found;
}

/// As the publisher's shard does. False if there is no room for it.
bool keep(Retained& retained, const MessageRef& message, Millis now) {
    auto kept = std::make_shared<Message>(*message);
    kept->not_kept = !retained.fits(*kept, now);
    retained.keep(kept, now);
    return !kept->not_kept;
}

using Found = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("a topic retains its last message, until one without a payload") {
    Retained retained(plenty);
    CHECK(keep(retained, message("a", "1", 1), 0));
    CHECK(keep(retained, message("a", "2", 2), 0));
    CHECK(all(retained, "a") == Found{{"a", "2"}});
    CHECK(retained.messages() == 1);
    CHECK(keep(retained, message("a", "", 3), 0));
    CHECK(all(retained, "#").empty());
    CHECK(retained.messages() == 0);
    CHECK(retained.bytes() == 0);
}

TEST_CASE("the later stamp counts, in whatever order messages arrive") {
    Retained retained(plenty);
    CHECK(keep(retained, message("a", "new", 9), 0));
    CHECK(keep(retained, message("a", "old", 8), 0));
    CHECK(all(retained, "a") == Found{{"a", "new"}});
    CHECK(keep(retained, message("a", "", 11), 0));
    CHECK(keep(retained, message("a", "late", 10), 0));
    CHECK(all(retained, "a").empty());
    CHECK(keep(retained, message("a", "again", 12), 0));
    CHECK(all(retained, "a") == Found{{"a", "again"}});
}

TEST_CASE("a deletion is forgotten after a while, and leaves nothing") {
    Retained retained(plenty);
    CHECK(keep(retained, message("a", "", 2), 0));
    for (int i = 0; i < 3; ++i) retained.forget_some(60'000);
    CHECK(keep(retained, message("a", "old", 1), 60'000));
    CHECK(all(retained, "a") == Found{{"a", "old"}});
}

TEST_CASE("expired messages are not found, and soon not kept") {
    Retained retained(plenty);
    CHECK(keep(retained, message("a", "!", 1, 5000), 0));
    CHECK(keep(retained, message("b", "!", 2), 0));
    CHECK(all(retained, "#", 5000).size() == 2);
    CHECK(all(retained, "#", 5001) == Found{{"b", "!"}});
    CHECK(all(retained, "a", 5001).empty());
    for (int i = 0; i < 3; ++i) retained.forget_some(5001);
    CHECK(retained.messages() == 1);
}

TEST_CASE("messages with long topics that end together are forgotten a few at a time") {
    constexpr int many = 200;
    for (const bool expire : {true, false}) {
        Retained retained({1000, 1 << 24});
        for (int i = 0; i < many; ++i) {
            const std::string topic = std::to_string(i) + std::string(60'000, 't');
            CHECK(keep(retained, message(topic, "!", 1, 5000), 0));
        }
        Retained::Erasure erasure{.filter = "#", .sender = {}, .stamp = 2};
        std::size_t left = many;
        while (left > 0) {
            if (expire)
                retained.forget_some(5001);
            else
                retained.erase(erasure, 0);
            CHECK(retained.messages() < left);
            CHECK(left - retained.messages() <= 40);
            left = retained.messages();
        }
    }
}

TEST_CASE("expired messages make room for new ones, at all limits") {
    const auto size = message("a", "1", 1)->cost();
    Retained by_number({2, 1 << 20});
    Retained by_bytes({1000, 2 * size + size / 2});
    Retained by_user({1000, 1 << 20, 2});
    for (Retained* retained : {&by_number, &by_bytes, &by_user}) {
        int told = 0;
        retained->tell_expired([&](const Message& expired) { told += expired.topic == "b"; });
        CHECK(keep(*retained, message("a", "1", 1), 0));
        CHECK(keep(*retained, message("b", "1", 2, 5000), 0));
        CHECK_FALSE(keep(*retained, message("c", "1", 3), 5000));
        CHECK(told == 0);
        CHECK(keep(*retained, message("d", "1", 4), 5001));
        CHECK(told == 1);
        CHECK(all(*retained, "#", 5001) == Found{{"a", "1"}, {"d", "1"}});
    }
}

TEST_CASE("over its limits nothing new is retained, but what is there may be replaced") {
    const auto size = message("a", "1", 1)->cost();
    Retained by_number({2, 1 << 20});
    Retained by_bytes({1000, 2 * size + size / 2});
    for (Retained* retained : {&by_number, &by_bytes}) {
        CHECK(keep(*retained, message("a", "1", 1), 0));
        CHECK(keep(*retained, message("b", "1", 2), 0));
        CHECK_FALSE(keep(*retained, message("c", "1", 3), 0));
        CHECK(keep(*retained, message("b", "2", 4), 0));
        CHECK(keep(*retained, message("a", "", 5), 0));
        CHECK(keep(*retained, message("c", "1", 6), 0));
        CHECK(all(*retained, "#") == Found{{"b", "2"}, {"c", "1"}});
    }
    CHECK_FALSE(keep(by_bytes, message("c", std::string(size, 'x'), 7), 0));
    CHECK(all(by_bytes, "#") == Found{{"b", "2"}});  // what is old is no longer true
}

TEST_CASE("one user leaves room for the others") {
    Retained retained({1000, 1 << 20, 2, 1 << 20});
    const auto from = [](std::uint64_t sender, std::string topic, std::uint64_t stamp) {
        auto made = std::make_shared<Message>(*message(std::move(topic), "!", stamp));
        made->sender = sender;
        return made;
    };
    CHECK(keep(retained, from(1, "a", 1), 0));
    CHECK(keep(retained, from(1, "b", 2), 0));
    CHECK_FALSE(keep(retained, from(1, "c", 3), 0));
    CHECK(keep(retained, from(1, "b", 4), 0));
    CHECK(keep(retained, from(2, "c", 5), 0));
    CHECK(keep(retained, from(2, "a", 6), 0));
    CHECK(keep(retained, from(1, "d", 7), 0));
}

TEST_CASE("what the filter does not select is not looked at one by one") {
    Retained retained({100'000, 1 << 30});
    std::uint64_t stamp = 0;
    for (int room = 0; room < 20; ++room)
        for (int i = 0; i < 500; ++i)
            CHECK(keep(retained, message(fmt::format("{}/{}", room, i), "!", ++stamp), 0));
    for (const char* filter : {"+/7", "+/7/x", "5/7/+", "+"}) {
        std::size_t left = 1000;
        CHECK(retained.visit(filter, "", left, 0, [](auto&) { return true; }).empty());
        CHECK(1000 - left <= 100);
    }
}

TEST_CASE("filters find just the topics that they select, however small the pages") {
    std::mt19937 random(3);
    const auto any = [&](std::size_t n) { return random() % n; };
    Retained retained(plenty);
    Found model;
    std::uint64_t stamp = 0;
    for (int step = 0; step < 500; ++step) {
        std::string topic(1, "abc/$"[any(5)]);
        for (auto more = any(4); more > 0; --more) topic += "/ab!0"[any(5)];
        const std::string payload = any(4) ? std::to_string(step) : "";
        CHECK(keep(retained, message(topic, payload, ++stamp), 0));
        if (payload.empty())
            model.erase(topic);
        else
            model[topic] = payload;
        if (step % 10) continue;
        for (const char* filter : {"#", "+", "+/#", "a/#", "a/+", "/#", "/+", "+/+", "a", "b/a",
                                   "ab/#", "+/a/#", "$/#", "$a", "//#", "+/+/+"}) {
            CAPTURE(filter);
            Found expected;
            for (const auto& [name, text] : model)
                if (topic_matches(filter, name)) expected.emplace(name, text);
            CHECK(all(retained, filter, 0, 1 + any(7)) == expected);
        }
    }
    CHECK(retained.messages() == model.size());
}

TEST_CASE("a visit that is stopped goes on after the last topic it saw") {
    Retained retained(plenty);
    for (const char* topic : {"a", "b", "c", "d"})
        CHECK(keep(retained, message(topic, topic, 1), 0));
    std::vector<std::string> seen;
    std::size_t left = 1000;
    const auto two = [&](const MessageRef& found) {
        seen.push_back(found->topic);
        return seen.size() % 2 != 0;
    };
    const auto after = retained.visit("#", "", left, 0, two);
    CHECK(after == "b");
    CHECK(left == 998);
    retained.visit("#", after, left, 0, two);
    CHECK(seen == std::vector<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("a flood of deletions with long topics is not remembered") {
    Retained retained({1000, 64 * 1024});
    const std::string tail(10'000, 't');
    for (int i = 0; i < 100; ++i)
        CHECK(keep(retained, message(std::to_string(i) + tail, "", 2), 0));
    for (int i = 0; i < 100; ++i)
        std::ignore = keep(retained, message(std::to_string(i) + tail, "p", 1), 0);
    // Room for one mark of ten thousand bytes; the messages themselves fill their own room.
    CHECK(retained.messages() == 6);
    CHECK(retained.bytes() <= 64 * 1024);

    for (int i = 0; i < 100; ++i) retained.forget_some(100'000);
    CHECK(keep(retained, message("0" + tail, "", 2), 100'000));
    CHECK(keep(retained, message("0" + tail, "p", 1), 100'000));
    CHECK(retained.messages() == 6);  // there is room for marks again
}
