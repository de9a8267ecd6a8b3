#include "server/routing/interest.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "protocol/topic.h"

using namespace pulsegate;

TEST_CASE("a shard is interested in what its filters may select, and in nothing before and after") {
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
        CHECK_FALSE(interest.may_match(std::string_view(topic)));
        const auto table = interest.add(filter);
        CHECK(interest.may_match(std::string_view(topic)));
        interest.remove(filter, table);
        CHECK_FALSE(interest.may_match(std::string_view(topic)));
    }
}

TEST_CASE("a filter without wildcards wakes nobody for its neighbours") {
    Interest interest;
    std::ignore = interest.add("inbox/alice");
    CHECK_FALSE(interest.may_match(std::string_view("inbox/bob")));
    CHECK_FALSE(interest.may_match(std::string_view("inbox")));
    std::ignore = interest.add("room/+");
    CHECK_FALSE(interest.may_match(std::string_view("rooms/1")));
}

TEST_CASE("interest never says no wrongly, while filters come and go") {
    std::mt19937 random(7);
    const auto any = [&](std::size_t n) { return random() % n; };
    const auto level = [&] { return std::string(1, "abc+"[any(4)]); };
    Interest interest;
    std::map<std::string, Interest::Table> filters;
    for (int step = 0; step < 20'000; ++step) {
        std::string filter = level();
        if (any(2)) filter += "/" + level();
        if (any(4) == 0) filter += "/#";
        const auto known = filters.find(filter);
        if (known == filters.end()) {
            filters.emplace(filter, interest.add(filter));
        } else if (any(2)) {
            interest.remove(filter, known->second);
            filters.erase(known);
        }
        std::string topic(1, "abc"[any(3)]);
        if (any(2)) topic += "/" + std::string(1, "abc"[any(3)]);
        bool wanted = false;
        for (const auto& [each, table] : filters) wanted |= topic_matches(each, topic);
        if (wanted) REQUIRE(interest.may_match(std::string_view(topic)));
    }
    for (const auto& [filter, table] : filters) interest.remove(filter, table);
    for (const char* topic : {"a", "b/c", "c/a"})
        CHECK_FALSE(interest.may_match(std::string_view(topic)));
}

TEST_CASE("very many filters with one first level are counted, and gone when they are gone") {
    Interest interest;
    for (int i = 0; i < 70'000; ++i) std::ignore = interest.add("busy/+");
    for (int i = 0; i < 69'999; ++i) interest.remove("busy/+", 0);
    CHECK(interest.may_match(std::string_view("busy/x")));
    interest.remove("busy/+", 0);
    CHECK_FALSE(interest.may_match(std::string_view("busy/x")));
}

TEST_CASE("with very many filters, few other topics wake a shard") {
    Interest interest;
    std::vector<Interest::Table> counted_in;
    for (int i = 0; i < 100'000; ++i)
        counted_in.push_back(interest.add("inbox/" + std::to_string(i)));
    int in_vain = 0;
    for (int i = 0; i < 10'000; ++i)
        in_vain += interest.may_match(std::string_view("other/" + std::to_string(i)));
    CHECK(in_vain < 3000);  // of 10,000
    for (int i = 0; i < 100'000; ++i)
        REQUIRE(interest.may_match(std::string_view("inbox/" + std::to_string(i))));
    for (int i = 0; i < 100'000; ++i)
        interest.remove("inbox/" + std::to_string(i), counted_in[static_cast<std::size_t>(i)]);
    for (int i = 0; i < 100'000; ++i)
        REQUIRE_FALSE(interest.may_match(std::string_view("inbox/" + std::to_string(i))));
}
