#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "server/cluster/recent_units.h"
#include "server/cluster/row_call.h"
#include "server/cluster/rules/incarnation.h"
#include "server/cluster/rules/judge.h"
#include "server/cluster/rules/succession.h"
#include "server/cluster/rules/token.h"

using namespace pulsegate;

namespace {

Beat beat(std::uint64_t count, std::string incarnation = "other") {
    return {std::move(incarnation), count, count, false};
}

RowChange change(std::string field, std::optional<std::string> value = "v") {
    return {{3, "t", std::move(field)}, std::move(value)};
}

}  // namespace

TEST_CASE("a node is dead when its counter stands still for a lease") {
    Judge judge("self", {}, 0);
    Millis now = 0;
    for (; now <= 8000; now += 1000) judge.hear(now, {beat(1)});
    CHECK(judge.standstill("other") == 8000);
    CHECK_FALSE(judge.is_dead(beat(1), false));
    judge.hear(now, {beat(1)});
    CHECK(judge.is_dead(beat(1), false));
    judge.hear(now + 1000, {beat(2)});
    CHECK_FALSE(judge.is_dead(beat(2), true));
}

TEST_CASE("a node is dead after three beats if its process is gone") {
    Judge judge("self", {}, 0);
    for (const Millis now : {0, 1000, 2000}) judge.hear(now, {beat(1)});
    CHECK_FALSE(judge.is_dead(beat(1), true));
    judge.hear(2990, {beat(1)});
    CHECK(judge.is_dead(beat(1), true));
    CHECK_FALSE(judge.is_dead(beat(1), false));
}

TEST_CASE("a judge that was stopped, or had no answers, makes nobody older") {
    Judge judge("self", {}, 0);
    judge.hear(0, {beat(1)});
    judge.hear(600'000, {beat(1)});
    CHECK(judge.standstill("other") == 2000);
    CHECK_FALSE(judge.is_dead(beat(1), false));
}

TEST_CASE("a judge that has its Redis back condemns nobody for some polls") {
    Judge judge("self", {}, 0);
    Millis now = 0;
    judge.hear(now, {beat(1)});
    judge.hear(now += 1000, {beat(2)});
    now += 120'000;
    for (int poll = 0; poll < 6; ++poll) {
        judge.hear(now += 1000, {beat(2)});
        CHECK_FALSE(judge.may_condemn_soon());
    }
    judge.hear(now += 1000, {beat(2)});
    CHECK(judge.may_condemn_soon());
    judge.hear(now += 1000, {beat(2)});
    CHECK_FALSE(judge.is_dead(beat(2), false));
    judge.hear(now += 1000, {beat(2)});
    CHECK(judge.is_dead(beat(2), false));
    judge.note_condemned("other");
    CHECK_FALSE(judge.may_condemn_soon());
}

TEST_CASE("in the first lease of a new run nobody is dead, and then answered time begins at zero") {
    Judge judge("self", {}, 0);
    for (Millis now = 0; now <= 20'000; now += 1000) judge.hear(now, {beat(1)});
    REQUIRE(judge.is_dead(beat(1), false));
    judge.begin_run(21'000);
    CHECK(judge.is_first_lease(28'999));
    for (Millis now = 21'000; now < 29'000; now += 1000) judge.hear(now, {beat(1)});
    CHECK_FALSE(judge.is_dead(beat(1), true));
    CHECK_FALSE(judge.is_first_lease(29'000));
    for (Millis now = 29'000; now < 32'000; now += 1000) judge.hear(now, {beat(1)});
    CHECK(judge.is_dead(beat(1), true));
}

TEST_CASE(
    "a node that was silent while others beat is not confused with a node that came back late") {
    Judge judge("self", {}, 0);
    judge.hear(0, {beat(100)});
    CHECK_FALSE(judge.was_silent({beat(105)}));
    CHECK(judge.was_silent({beat(106)}));
    CHECK_FALSE(judge.was_silent({Beat{"other", 200, 105, false}}));  // it beats in a new run
    CHECK(judge.was_silent({beat(6, "newcomer")}));
    CHECK(judge.was_silent({Beat{.incarnation = "self", .is_condemned = true}}));
}

TEST_CASE("a newcomer claims nothing before it has heard the others, or a lease has passed") {
    Judge judge("self", {}, 0);
    judge.hear(0, {beat(1)});
    CHECK_FALSE(judge.has_heard_all(0));
    CHECK(judge.has_heard_all(8000));
    judge.hear(1000, {beat(2)});
    CHECK(judge.has_heard_all(1000));
    judge.hear(2000, {beat(2), beat(7, "third")});
    CHECK_FALSE(judge.has_heard_all(2000));
    judge.note_condemned("third");
    CHECK(judge.has_heard_all(2000));
}

TEST_CASE("a node that has just joined comes last in the succession") {
    const bool is_b_first = place_in_succession(0, "b", {"b", "c"}) == 0;
    const std::string first = is_b_first ? "b" : "c", second = is_b_first ? "c" : "b";
    const auto own = [](const std::string& name) { return name + "#0123456789abcdef"; };
    const auto later = [](const std::string& name) { return name + "#123456789abcdef0"; };

    Judge settled(own(second), {}, 0);
    settled.hear(0, {beat(1, own(first))});
    CHECK(settled.claimants_before(15'999) == 1);  // the other one was there before
    CHECK(settled.claimants_before(16'000) == 1);  // by rank
    settled.hear(20'000, {});
    CHECK(settled.claimants_before(20'000) == 0);
    settled.hear(21'000, {beat(1, later(first))});
    CHECK(settled.claimants_before(36'999) == 0);
    CHECK(settled.claimants_before(37'000) == 1);

    Judge newcomer(later(first), {}, 21'000);
    newcomer.hear(21'000, {beat(1, own(second)), beat(1, own(first))});
    newcomer.hear(22'000, {beat(2, own(second)), beat(1, own(first)), beat(1, "third")});
    CHECK(newcomer.claimants_before(22'000) == 1);
    CHECK(newcomer.claimants_before(36'999) == 1);
    newcomer.note_condemned(own(second));
    CHECK(newcomer.claimants_before(36'999) == 0);
}

TEST_CASE("when two nodes join at once, the node with the first heartbeat may claim first") {
    for (const bool is_a_first : {true, false}) {
        CAPTURE(is_a_first);
        const std::string first = std::string(is_a_first ? "a" : "b") + "#0123456789abcdef";
        const std::string second = std::string(is_a_first ? "b" : "a") + "#0123456789abcdef";
        Judge quick(first, {}, 0), slow(second, {}, 0);
        quick.hear(0, {beat(1, first), beat(0, second)});
        slow.hear(10, {beat(1, first), beat(1, second)});
        quick.hear(1000, {beat(2, first), beat(1, second)});
        CHECK(quick.claimants_before(1000) == 0);
        CHECK(slow.claimants_before(1000) == 1);
    }
}

TEST_CASE("each living node has a place of its own for each partition") {
    const std::vector<std::string> living{"a", "b", "c"};
    std::map<std::string, int> first;
    for (unsigned p = 0; p < partitions; ++p) {
        std::size_t sum = 0;
        for (const std::string& name : living) {
            const std::size_t place = place_in_succession(p, name, living);
            sum += place;
            first[name] += place == 0;
        }
        CHECK(sum == 3);
    }
    for (const std::string& name : living) CHECK(first[name] > 20);
}

TEST_CASE("recent units are the last ten seconds, and the last change of each row") {
    RecentUnits units(10'000);
    units.add(0, {change("old")});
    units.add(5'000, {change("a", "1"), change("b")});
    units.add(10'001, {change("a", "2"), change("b", std::nullopt)});
    const auto tail = units.tail();
    REQUIRE(tail.size() == 1);
    std::map<std::string, std::optional<std::string>> rows;
    for (const RowChange* each : tail.at(3)) rows[each->key.field] = each->value;
    CHECK(rows == std::map<std::string, std::optional<std::string>>{{"a", "2"}, {"b", {}}});
    CHECK(tail.at(3).size() == 2);

    units.renew(14'000);  // a new run has them now
    units.keep(23'000);
    CHECK(units.tail().at(3).size() == 2);
    units.keep(24'001);
    CHECK(units.tail().empty());
    CHECK(units.bytes() == 0);
    CHECK(units.dropped_bytes() == 0);
}

TEST_CASE("recent units that have no room are counted") {
    RecentUnits units(10'000);
    for (int i = 0; i < 3; ++i) units.add(i, {change(std::to_string(i), std::string(4000, 'x'))});
    CHECK(units.bytes() <= 10'000);
    CHECK(units.dropped_bytes() > 4000);
    CHECK(units.tail().at(3).size() == 2);
}

TEST_CASE("the words of a unit: tokens and hashes, and what is set and deleted in each") {
    const std::vector<RowChange> changes{{{1, "user", "a"}, "A"},
                                         {{global_partition, "bans", "x"}, "X"},
                                         {{1, "msg", "7"}, {}},
                                         {{1, "user", "b"}, {}}};
    const RowCall call("pg1_unit", changes, [](Partition p) { return "t" + std::to_string(p); });
    const std::vector<std::string_view> words(call.words().begin(), call.words().end());
    CHECK(words == std::vector<std::string_view>{
                       "FCALL",     "pg1_unit",  "5", "{p0}:token", "{p1}:token", "{p1}:msg",
                       "{p1}:user", "{pg}:bans", "2", "t0",         "t1",  //
                       "0",         "1",         "7",                      //
                       "2",         "1",         "a", "A",          "b",   //
                       "2",         "0",         "x", "X"});
}

TEST_CASE("keys of partitions") {
    CHECK(partition_key(17, "msg") == "{p17}:msg");
    CHECK(parse_partition_key("{p17}:msg") == std::pair(Partition{17}, std::string("msg")));
    CHECK(parse_partition_key("{pg}:bans") == std::pair(global_partition, std::string("bans")));
    for (const char* key : {"", "{p128}:x", "{px}:x", "{q1}:x", "{p1}", "{p1"})
        CHECK_FALSE(parse_partition_key(key));
}

TEST_CASE("tokens and incarnations") {
    const std::string incarnation = new_incarnation("west.example");
    CHECK(node_name_of(incarnation) == "west.example");
    CHECK(new_incarnation("west.example") != incarnation);
    const Token token = parse_token("12 " + incarnation + ":3");
    CHECK(token.epoch == 12);
    CHECK(token.owner == incarnation);
    CHECK(parse_token("12 -").owner.empty());
    CHECK(parse_token("").epoch == 0);
    CHECK(is_node_name("west-1.example_x"));
    for (const char* name : {"", "a b", "a#b", "a:b", "ä"}) CHECK_FALSE(is_node_name(name));
}
