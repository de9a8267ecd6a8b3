#include "server/http/messages/once.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

using namespace pulsegate;

namespace {

using Verdict = RepeatedRequests::Verdict;

constexpr RepeatedRequests::BodyHash one_body{1};
constexpr RepeatedRequests::BodyHash another_body{2};

void answer_at(RepeatedRequests& requests, const std::string& key, Millis now,
               const std::string& answer = "done") {
    REQUIRE(requests.begin(key, one_body, now) == Verdict::is_new);
    requests.finish(key, answer);
}

}  // namespace

TEST_CASE("a repeated request gets the first answer") {
    RepeatedRequests requests;
    CHECK(requests.begin("k", one_body, 0) == Verdict::is_new);
    CHECK(requests.begin("k", one_body, 1) == Verdict::under_way);
    CHECK(requests.begin("k", another_body, 1) == Verdict::other_body);
    requests.finish("k", "done");
    CHECK(requests.begin("k", one_body, 2) == Verdict::is_repeated);
    CHECK(requests.answer("k") == "done");
    CHECK(requests.begin("k", another_body, 3) == Verdict::other_body);
    CHECK(requests.begin("other", one_body, 3) == Verdict::is_new);
}

TEST_CASE("a request that was not done may be tried again") {
    RepeatedRequests requests;
    CHECK(requests.begin("k", one_body, 0) == Verdict::is_new);
    requests.finish("k", std::nullopt);
    CHECK(requests.begin("k", another_body, 1) == Verdict::is_new);
    requests.finish("k", std::nullopt);
    CHECK(requests.size() == 0);
    CHECK(requests.bytes() == 0);
}

TEST_CASE("before an upgrade no new request begins, and those under way may end") {
    RepeatedRequests requests;
    CHECK(requests.begin("slow", one_body, 0) == Verdict::is_new);
    requests.admit_new(false);
    CHECK(requests.begin("new", one_body, 1) == Verdict::under_way);
    CHECK_FALSE(requests.are_answered());
    requests.finish("slow", "done");
    CHECK(requests.are_answered());
    CHECK(requests.begin("slow", one_body, 2) == Verdict::is_repeated);
    requests.admit_new(true);
    CHECK(requests.begin("new", one_body, 3) == Verdict::is_new);
}

TEST_CASE("a key is forgotten after ten minutes, but not while its request is under way") {
    RepeatedRequests requests;
    answer_at(requests, "old", 0);
    CHECK(requests.begin("slow", one_body, 1) == Verdict::is_new);
    CHECK(requests.begin("old", one_body, RepeatedRequests::kept - 1) == Verdict::is_repeated);
    CHECK(requests.begin("old", one_body, RepeatedRequests::kept) == Verdict::is_new);
    CHECK(requests.begin("slow", one_body, RepeatedRequests::kept + 1) == Verdict::under_way);
}

TEST_CASE("beyond the number of keys the oldest go") {
    RepeatedRequests requests;
    for (std::size_t i = 0; i <= RepeatedRequests::most_keys; ++i)
        answer_at(requests, std::to_string(i), 0);
    CHECK(requests.size() == RepeatedRequests::most_keys);
    CHECK(requests.begin("1", one_body, 1) == Verdict::is_repeated);
    CHECK(requests.begin("0", one_body, 1) == Verdict::is_new);
}

TEST_CASE("the next process gives the same answers, for as long as this one would have") {
    RepeatedRequests before;
    answer_at(before, "first", 0, "one");
    answer_at(before, "second", 1000, "two");
    CHECK(before.begin("under way", one_body, 1000) == Verdict::is_new);
    RepeatedRequests after;
    constexpr Millis later = 5000;  // its clock may be another one
    after.adopt(before.describe(2000), later + 2000);
    CHECK(after.size() == 2);
    CHECK(after.bytes() < before.bytes());
    CHECK(after.begin("first", one_body, later + 2000) == Verdict::is_repeated);
    CHECK(after.answer("first") == "one");
    CHECK(after.begin("first", another_body, later + 2000) == Verdict::other_body);
    CHECK(after.begin("under way", one_body, later + 2000) == Verdict::is_new);
    CHECK(after.begin("first", one_body, later + RepeatedRequests::kept) == Verdict::is_new);
    CHECK(after.begin("second", one_body, later + RepeatedRequests::kept) == Verdict::is_repeated);
    CHECK(after.answer("second") == "two");
    before.finish("under way", std::nullopt);
}

TEST_CASE("beyond their bytes the oldest answers go") {
    RepeatedRequests requests;
    const std::string large(RepeatedRequests::most_bytes / 2, 'x');
    for (const auto* key : {"a", "b", "c"}) answer_at(requests, key, 0, large);
    CHECK(requests.bytes() <= RepeatedRequests::most_bytes);
    CHECK(requests.begin("c", one_body, 1) == Verdict::is_repeated);
    CHECK(requests.begin("a", one_body, 1) == Verdict::is_new);
}
