#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/ledger/ledger.h"
#include "server/store/tables/delayed_turns.h"
#include "tests/support/quiet_log.h"
#include "tests/support/test_store.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

std::vector<std::uint64_t> taken(Ledger& ledger, std::int64_t before, std::size_t most) {
    std::promise<std::vector<std::uint64_t>> answered;
    ledger.take_delayed(before, most, [&](Outcome, const std::vector<PutDelayed>& found) {
        std::vector<std::uint64_t> ids;
        for (const PutDelayed& put : found) ids.push_back(put.id);
        answered.set_value(ids);
    });
    return answered.get_future().get();
}

bool cancelled(Ledger& ledger, CancelDelayed cancel) {
    std::promise<bool> answered;
    ledger.submit({{std::move(cancel)}, [&](Outcome, const std::vector<Operation>& operations) {
                       answered.set_value(std::get<CancelDelayed>(operations.front()).found);
                   }});
    return answered.get_future().get();
}

}  // namespace

TEST_CASE("delayed messages that are due are taken once, in their order, until they are dropped") {
    Store store(each_kind());
    commit(*store, {delayed(300), delayed(100), delayed(200)});
    CHECK(store->next_delayed() == 100);
    CHECK(taken(*store, 300, 1) == std::vector{delayed_id(100, 1)});
    CHECK(store->next_delayed() == 200);
    CHECK(taken(*store, 300, 9) == std::vector{delayed_id(200, 1)});
    CHECK(taken(*store, 300, 9).empty());
    CHECK(store->next_delayed() == 300);
    commit(*store, {DropDelayed{delayed_id(100, 1)}});
    store.restart();
    CHECK(store->next_delayed() == 200);
    CHECK(taken(*store, 999, 9) == std::vector{delayed_id(200, 1), delayed_id(300, 1)});
}

TEST_CASE("a delayed message that was taken can't be cancelled any more") {
    Store store(each_kind());
    commit(*store, {delayed(100, "n"), delayed(200)});
    CHECK(taken(*store, 101, 9) == std::vector{delayed_id(100, 1)});
    CHECK_FALSE(cancelled(*store, {.id = delayed_id(100, 1)}));
    CHECK_FALSE(cancelled(*store, {.user = "ann", .name = "n"}));
    CHECK_FALSE(cancelled(*store, {.id = delayed_id(200, 1), .user = "bob"}));
    CHECK(cancelled(*store, {.id = delayed_id(200, 1), .user = "ann"}));
    CHECK(store->delayed_total("ann").messages == 1);
    commit(*store, {DropDelayed{delayed_id(100, 1)}});
    CHECK(store->delayed_total("ann") == DelayedTotal{});
}

TEST_CASE("a read that was refused tells nothing, and has taken nothing") {
    const QuietLog quiet;
    Store store({.patience = 20ms});
    commit(*store, {session(1), delayed(100)});
    store.disk().hold_syncs();
    auto blocking = submit(*store, {put(5, {1})});
    store.disk().await_sync();
    auto written = submit(*store, {put(6, {1})});  // and read, in one transaction
    std::promise<std::size_t> found;
    store->take_delayed(101, 9, [&](Outcome outcome, const std::vector<PutDelayed>& puts) {
        CHECK(outcome == Outcome::refused);
        found.set_value(puts.size());
    });
    store.disk().break_down(SQLITE_IOERR_WRITE);
    store.disk().release_syncs();
    CHECK(found.get_future().get() == 0);
    store.disk().mend();
    while (commit(*store, {put(7, {1})}) == Outcome::refused) {
    }
    CHECK(taken(*store, 101, 9) == std::vector{delayed_id(100, 1)});
}

TEST_CASE(
    "a read that has taken messages is answered, even if what is committed with it is refused") {
    const QuietLog quiet;
    Store store({.patience = 1s});  // the syncs must have failed by then
    commit(*store, {session(1), delayed(100)});
    store.disk().hold_syncs();
    auto blocking = submit(*store, {put(5, {1})});
    store.disk().await_sync();
    auto written = submit(*store, {put(6, {1})});  // and read, in one transaction
    std::promise<std::size_t> found;
    store->take_delayed(101, 9, [&](Outcome, const std::vector<PutDelayed>& puts) {
        found.set_value(puts.size());
    });
    store.break_database();
    store.disk().fail_at(store.disk().steps() + 2, FaultyDisk::Fault::sync_error, 3);
    store.disk().release_syncs();
    CHECK(blocking.get() == Outcome::committed);
    CHECK(written.get() == Outcome::refused);
    CHECK(found.get_future().get() == 1);
    store.disk().mend();
}

TEST_CASE("a cancellation that names neither a number nor a user finds nothing") {
    Store store(each_kind());
    commit(*store, {delayed(100, "n")});
    CHECK_FALSE(cancelled(*store, {.name = "n"}));
    CHECK_FALSE(cancelled(*store, {}));
}

TEST_CASE("the totals of delayed messages are those of the rows, after a restart too") {
    Store store(each_kind());
    commit(*store, {delayed(100, "n"), delayed(200, "m")});
    const auto before = store->delayed_total("ann");
    CHECK(before.messages == 2);
    CHECK(before.bytes > 2 * std::string("later").size());
    commit(*store, {delayed(300, "n")});  // replaces the first
    CHECK(store->delayed_total("ann") == before);
    store.restart();
    CHECK(store->delayed_total("ann") == before);
    CHECK(store->delayed_total(std::nullopt) == before);
    CHECK(store->delayed_total("bob") == DelayedTotal{});
}

TEST_CASE("numbers of delayed messages go on above those of the last process") {
    Store store(each_kind());
    CHECK(store.began().next_delayed == 1);
    commit(*store, {PutDelayed{.id = delayed_id(5, 41), .message = message("d", "")}});
    store.restart();
    CHECK(store.began().next_delayed > 41);
}

TEST_CASE("a store in memory keeps delayed messages until it ends") {
    SqliteLedger ledger({.folder = ""});
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger, {delayed(100), session(1), put(5, {1})});
    CHECK(taken(ledger, 101, 9).size() == 1);
    CHECK(stored_of(ledger, {5}).size() == 1);
}

TEST_CASE("users take turns among what is due, also after a restart, and each keeps its order") {
    Store store(each_kind());
    std::vector<Operation> operations;
    std::uint32_t number = 0;
    const auto add = [&](const char* user, std::int64_t due) {
        operations.emplace_back(
            PutDelayed{.id = delayed_id(due, ++number), .user = user, .message = message("d", "")});
        return delayed_id(due, number);
    };
    std::vector<std::uint64_t> of_first;
    for (int i = 0; i < 3000; ++i)
        for (const char* user : {"mal1", "mal2", "mal3"})
            if (const auto id = add(user, 100); user == std::string("mal1")) of_first.push_back(id);
    const auto bobs = add("bob", 100);
    const auto earlier = add("carol", 99);
    commit(*store, std::move(operations));
    for (const bool restarts : {false, true}) {
        CAPTURE(restarts);
        if (restarts) store.restart();
        std::vector<std::uint64_t> seen;
        bool has_bobs = false;
        bool has_earlier = false;
        for (int round = 0; round < 20; ++round)
            for (const auto id : taken(*store, 101, 100)) {
                if (std::ranges::binary_search(of_first, id)) seen.push_back(id);
                has_bobs |= id == bobs && round == 0;
                has_earlier |= id == earlier && round == 0;
            }
        CHECK(has_bobs);
        CHECK(has_earlier);
        CHECK(seen.size() > 500);
        CHECK(seen.size() < 800);
        CHECK(seen == std::vector(of_first.begin(),
                                  of_first.begin() + static_cast<std::ptrdiff_t>(seen.size())));
    }
}

TEST_CASE("turns are those of a plain model") {
    std::mt19937 random(4711);
    DelayedTurns turns;
    std::map<std::string, std::uint64_t> firsts;
    std::vector<std::string> due;  // in the order of turns
    std::uint64_t before = 0;
    const auto is_due = [&](const std::string& user) {
        return std::ranges::find(due, user) != due.end();
    };
    for (int step = 0; step < 20'000; ++step) {
        const std::string user(1, static_cast<char>('a' + random() % 8));
        switch (random() % 4) {
            case 0: {
                const auto first = before + random() % 20;
                turns.set(user, first);
                firsts[user] = first;
                break;
            }
            case 1:
                turns.set(user, std::nullopt);
                firsts.erase(user);
                break;
            case 2: {
                turns.advance(++before);
                break;
            }
            default:
                turns.served(user);
                if (!is_due(user)) break;
                std::erase(due, user);
                due.push_back(user);
        }
        std::erase_if(due, [&](const std::string& each) {
            return !firsts.contains(each) || firsts[each] >= before;
        });
        std::vector<std::pair<std::uint64_t, std::string>> newly;
        for (const auto& [each, first] : firsts)
            if (first < before && !is_due(each)) newly.emplace_back(first, each);
        std::ranges::sort(newly);
        for (const auto& each : newly) due.push_back(each.second);
        REQUIRE(turns.next(99) == due);
        REQUIRE(turns.due() == due.size());
    }
}

TEST_CASE("room for delayed messages is given away once, and comes back with those that are lost") {
    Store store(each_kind());
    const auto fits = [](const DelayedTotal& all, const DelayedTotal& own) {
        return all.messages <= 5 && own.messages <= 3;
    };
    const auto claim = [&](const char* user) { return store->claim_delayed(user, {1, 70}, fits); };
    std::vector<DelayedClaimRef> claims{claim("ann"), claim("ann"), claim("ann")};
    CHECK_FALSE(claim("ann"));
    claims.push_back(claim("bob"));
    claims.push_back(claim("bob"));
    CHECK_FALSE(claim("carol"));
    claims.pop_back();
    CHECK(claim("carol"));
    PutDelayed put{.id = delayed_id(100, 1), .user = "ann", .message = message("d", "")};
    put.claim = claims.front();
    commit(*store, {put});  // it counts once, though somebody has it still
    CHECK_FALSE(claim("ann"));
    CHECK(claim("carol"));
    CHECK(store->delayed_total("ann").messages == 1);
    claims.clear();
    CHECK(claim("ann"));
}
