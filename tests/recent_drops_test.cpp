#include "server/store/tables/recent_drops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/start/opening.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

constexpr std::uint32_t first = 1;
constexpr std::uint32_t second = 2;

/// Commits a drop, in a transaction that has all units.
void drop(RecentDrops& drops, std::string_view topic, Stamp stamp) {
    drops.begin();
    drops.add(topic, stamp);
    drops.committed();
}

/// Commits a unit of each of two shards. Returns true if the drops have aged.
bool age(RecentDrops& drops) {
    drops.heard(first, 0);
    drops.heard(second, 0);
    return drops.caught_up();
}

PutRetained retained(Stamp stamp, std::string payload) {
    return {.stamp = stamp, .message = message("topic", std::move(payload))};
}

bool has_retained(const Store& store) {
    return store.found().text().find("retained") != std::string::npos;
}

std::size_t retained_rows(const Store& store) {
    const auto rows = store.rows().rows();
    return static_cast<std::size_t>(
        std::ranges::count_if(rows, [](const auto& row) { return row.first.table == "retained"; }));
}

std::size_t deleted_in(const std::vector<RowChange>& changes) {
    return static_cast<std::size_t>(std::ranges::count_if(changes, [](const RowChange& change) {
        return change.key.table == "retained" && !change.value;
    }));
}

/// More than are remembered; the others leave rows.
constexpr std::size_t most_remembered = 100'000;
std::vector<Operation> too_many_drops(Stamp stamp, std::size_t more, std::size_t topic_bytes) {
    std::vector<Operation> made;
    for (std::size_t i = 0; i < most_remembered + more; ++i) {
        std::string topic = "topic" + std::to_string(i) + "/";
        if (i >= most_remembered) topic.resize(topic_bytes, 'x');
        made.emplace_back(DropRetained{stamp, std::move(topic)});
    }
    return made;
}

}  // namespace

TEST_CASE("a drop is remembered until every shard has submitted all that it had begun before") {
    RecentDrops drops(2);
    drop(drops, "a", 10);
    CHECK(drops.is_dropped("a", 9));
    CHECK(drops.is_dropped("a", 10));
    CHECK_FALSE(drops.is_dropped("a", 11));
    CHECK_FALSE(drops.is_dropped("b", 9));
    CHECK(drops.awaits_units());

    CHECK(age(drops));
    CHECK(drops.is_dropped("a", 9));  // these units may have been submitted before the drop
    drops.heard(first, 0);
    CHECK_FALSE(drops.caught_up());
    CHECK(drops.is_dropped("a", 9));
    drops.heard(second, 0);
    CHECK(drops.caught_up());
    CHECK_FALSE(drops.is_dropped("a", 9));
    CHECK_FALSE(drops.awaits_units());
}

TEST_CASE("a unit that was refused before does not show that its shard has submitted everything") {
    RecentDrops drops(2);
    drop(drops, "a", 10);
    age(drops);
    drops.heard(first, 0);
    drops.heard(second, 1);
    CHECK_FALSE(drops.caught_up());
    drops.heard(second, 1);
    CHECK(drops.caught_up());
}

TEST_CASE("the latest drop of a topic counts, in whichever order they come") {
    RecentDrops drops(2);
    drop(drops, "a", 10);
    drop(drops, "a", 5);
    CHECK(drops.is_dropped("a", 9));
    age(drops);
    drop(drops, "a", 7);
    CHECK(drops.is_dropped("a", 9));
}

TEST_CASE("a drop counts only if it is committed") {
    RecentDrops drops(2);
    drops.begin();
    drops.add("a", 10);
    CHECK(drops.is_dropped("a", 9));
    drops.begin();  // the transaction is tried again
    CHECK_FALSE(drops.is_dropped("a", 9));
    drops.committed();
    CHECK_FALSE(drops.awaits_units());
}

TEST_CASE("more drops than the bound are not remembered") {
    RecentDrops drops(2, 2);
    drop(drops, "a", 1);
    age(drops);
    drop(drops, "b", 1);
    drops.begin();
    CHECK_FALSE(drops.add("c", 1));
    age(drops);
    CHECK(drops.add("c", 1));
}

TEST_CASE("a retained message that comes late stays dropped, however old the drop is") {
    Store store(each_kind());
    const Stamp now = stamp_at(wall_now());
    const Stamp old = now - 2 * floor_ahead;
    commit(*store, {session(1), retained(old, "early")});
    // The drop was refused and comes again, in a commit that also raises the floor.
    commit(*store, {DropRetained{old + 2, "topic"}, put(now + 2 * floor_ahead, {1})});
    commit(*store, {retained(old + 1, "late")});
    store.restart();
    CHECK_FALSE(has_retained(store));
}

TEST_CASE("a drop that was refused does not hold back an older message") {
    const QuietLog quiet;
    Store store(Kept::mirrored, {.patience = std::chrono::milliseconds(1)});
    store.rows().judge_by([](const std::vector<RowChange>&, bool) {
        return MemoryRows::Fate{RowStore::Answer::away, false};
    });
    CHECK(commit(*store, {DropRetained{2, "topic"}, session(1)}) == Outcome::refused);
    store.rows().judge_by({});
    while (commit(*store, {retained(1, "hello")}) == Outcome::refused) {
    }
    store.restart();
    CHECK(has_retained(store));
}

TEST_CASE("a dropped retained message leaves no row") {
    Store store(Kept::mirrored);
    commit(*store, {retained(1, "hello")});
    CHECK(retained_rows(store) == 1);
    const std::size_t writes = store.rows().writes();
    commit(*store, {DropRetained{2, "topic"}, DropRetained{2, "a topic that nobody has set"}});
    CHECK(retained_rows(store) == 0);
    CHECK(store.rows().writes() == writes + 1);
    commit(*store, {retained(1, "late")});
    CHECK(retained_rows(store) == 0);
    commit(*store, {retained(3, "new")});
    CHECK(retained_rows(store) == 1);
}

TEST_CASE("a ledger awaits units of its sources until it may forget a drop") {
    Store store(each_kind(), {.sources = 1});
    CHECK_FALSE(store->awaits_units());
    CHECK(submit(*store, {DropRetained{1, "topic"}}, first).get() == Outcome::committed);
    CHECK(store->awaits_units());
    for (int i = 0; i < 3; ++i) submit(*store, {}, first).wait();
    CHECK_FALSE(store->awaits_units());
}

TEST_CASE("a drop that has no room in memory leaves a row until no older message can come") {
    Store store(Kept::mirrored, {.sources = 1});
    std::size_t most = 0;
    store.rows().judge_by([&](const std::vector<RowChange>& changes, bool) {
        most = std::max(most, deleted_in(changes));
        return MemoryRows::Fate{};
    });
    const auto few = std::pair{std::size_t{2000}, std::size_t{256}};
    const auto long_ones = std::pair{std::size_t{100}, std::size_t{5}};
    for (const auto& [more, most_deleted] : {few, long_ones}) {
        const std::size_t topic_bytes = more == few.first ? 20 : 60'000;
        commit(*store, too_many_drops(10, more, topic_bytes));
        CHECK(retained_rows(store) == more);
        std::string topic = "topic" + std::to_string(most_remembered) + "/";
        topic.resize(topic_bytes, 'x');
        commit(*store, {PutRetained{.stamp = 9, .message = message(topic, "late")}});
        REQUIRE(comes_true([&] {
            if (retained_rows(store) == 0) return true;
            submit(*store, {}, first).wait();
            return false;
        }));
        CHECK(std::exchange(most, 0) <= most_deleted);
    }
    store.rows().judge_by({});
}

TEST_CASE("a start does not load the rows of drops, and deletes them") {
    Store store(Kept::mirrored);
    commit(*store, too_many_drops(10, 2000, 20));
    store.stop();
    CHECK(retained_rows(store) == 2000);
    store.start();
    CHECK_FALSE(has_retained(store));
    while (retained_rows(store) > 0) commit(*store, {});
}
