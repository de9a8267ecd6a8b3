#include "server/routing/interest.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "protocol/topic.h"

using namespace pulsegate;

TEST_CASE("a shard wants what its filters may select, and nothing before and after") {
    Interest interest;
    const std::vector<std::pair<const char*, const char*>> cases{
        {"inbox/alice", "inbox/alice"},
        {"room/+/x", "room/5/x"},
        {"room/#", "room"},
        {"+/x", "any/x"},
        {"#", "any"},
        {"/+", "/x"},
    };
    for (const auto& [filter, topic] : cases) {
        CAPTURE(filter);
        CHECK_FALSE(interest.wants(std::string_view(topic)));
        interest.add(filter);
        CHECK(interest.wants(std::string_view(topic)));
        interest.remove(filter);
        CHECK_FALSE(interest.wants(std::string_view(topic)));
    }
}

TEST_CASE("a filter without wildcards wakes nobody for its neighbours") {
    Interest interest;
    interest.add("inbox/alice");
    CHECK_FALSE(interest.wants(std::string_view("inbox/bob")));
    CHECK_FALSE(interest.wants(std::string_view("inbox")));
    interest.add("room/+");
    CHECK_FALSE(interest.wants(std::string_view("rooms/1")));
}

TEST_CASE("interest never says no in vain, whatever comes and goes") {
    std::mt19937 random(7);
    const auto any = [&](std::size_t n) { return random() % n; };
    const auto level = [&] { return std::string(1, "abc+"[any(4)]); };
    Interest interest;
    std::set<std::string> filters;
    for (int step = 0; step < 20'000; ++step) {
        std::string filter = level();
        if (any(2)) filter += "/" + level();
        if (any(4) == 0) filter += "/#";
        if (filters.insert(filter).second) {
            interest.add(filter);
        } else if (any(2)) {
            filters.erase(filter);
            interest.remove(filter);
        }
        std::string topic(1, "abc"[any(3)]);
        if (any(2)) topic += "/" + std::string(1, "abc"[any(3)]);
        bool wanted = false;
        for (const auto& known : filters) wanted |= topic_matches(known, topic);
        if (wanted) REQUIRE(interest.wants(std::string_view(topic)));
    }
    for (const auto& filter : filters) interest.remove(filter);
    for (const char* topic : {"a", "b/c", "c/a"})
        CHECK_FALSE(interest.wants(std::string_view(topic)));
}

TEST_CASE("very many filters with one first level are counted, and gone when they are gone") {
    Interest interest;
    for (int i = 0; i < 70'000; ++i) interest.add("busy/+");
    for (int i = 0; i < 69'999; ++i) interest.remove("busy/+");
    CHECK(interest.wants(std::string_view("busy/x")));
    interest.remove("busy/+");
    CHECK_FALSE(interest.wants(std::string_view("busy/x")));
}

TEST_CASE("with very many filters, few other topics wake a shard") {
    Interest interest;
    for (int i = 0; i < 100'000; ++i) interest.add("inbox/" + std::to_string(i));
    int in_vain = 0;
    for (int i = 0; i < 10'000; ++i)
        in_vain += interest.wants(std::string_view("other/" + std::to_string(i)));
    CHECK(in_vain < 1500);
}
