#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/ledger.h"
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
    Store store;
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
    Store store;
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

TEST_CASE("a cancellation that names neither a number nor a user finds nothing") {
    Store store;
    commit(*store, {delayed(100, "n")});
    CHECK_FALSE(cancelled(*store, {.name = "n"}));
    CHECK_FALSE(cancelled(*store, {}));
}

TEST_CASE("the totals of delayed messages are those of the rows, after a restart too") {
    Store store;
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
    Store store;
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
