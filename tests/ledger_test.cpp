#include "server/store/ledger/ledger.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/test_store.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

/// The answer about a message for a session, from a disk that fails from then on.
std::future<Outcome> submit_in_trouble(Store& store, int error) {
    commit(*store, {session(1)});
    store.disk().break_down(error);
    return submit(*store, {put(5, {1})});
}

/// What the tables don't take, after `never_bad`.
const PutSubscription bad{.owner = 1, .filter = "bad"};
constexpr const char* never_bad =
    "CREATE TRIGGER never BEFORE INSERT ON subscription WHEN NEW.filter = 'bad'"
    " BEGIN SELECT RAISE(ABORT, 'never'); END";

}  // namespace

TEST_CASE("answers come in the order of submission, lazy units and reads included") {
    const TemporaryFolder folder;
    SqliteLedger ledger({.folder = folder.path("data")});
    StoredState nothing;
    nothing.read(ledger);
    std::vector<int> order;
    const auto note = [&](int number) {
        return [&order, number](Outcome, auto&) { order.push_back(number); };
    };
    ledger.submit({{session(1)}, note(1)});
    ledger.submit_lazily({{put(5, {1})}, note(2)});
    ledger.submit({{Done{.owner = 1, .upto = 5}}, {}});
    ledger.read_messages({5}, [&](Outcome, auto) { order.push_back(3); });
    ledger.submit_lazily({{}, note(4)});
    CHECK(commit(ledger, {EndOwner{1}}) == Outcome::committed);
    CHECK(order == std::vector{1, 2, 3, 4});
    CHECK_FALSE(ledger.refusing());
}

TEST_CASE("reads see what was submitted before, and no more than is stored") {
    Store store(each_kind());
    submit(*store, {session(1), put(5, {1}), put(7, {1})});
    CHECK(stored_of(*store, {7, 6, 5}) == std::vector<Stamp>{7, 5});
}

TEST_CASE("a message is deleted when none of its receivers waits for it any more") {
    Store store(each_kind());
    commit(*store, {session(1), session(2, "bob"), session(3, "eve"), put(5, {1, 2, 3, 99})});
    commit(*store, {Done{.owner = 1, .upto = 5}, EndOwner{3}});
    commit(*store, {});
    CHECK(stored_of(*store, {5}) == std::vector<Stamp>{5});
    commit(*store, {Done{.owner = 2, .beyond = {5}}});
    commit(*store, {});
    CHECK(stored_of(*store, {5}).empty());
}

TEST_CASE("a message that nobody waited for any more can get receivers again") {
    Store store(each_kind());
    commit(*store, {session(1), session(2, "bob"), put(5, {1})});
    commit(*store, {Done{.owner = 1, .upto = 5}});
    commit(*store, {put(5, {2})});
    commit(*store, {});
    CHECK(stored_of(*store, {5}) == std::vector<Stamp>{5});
    store.restart();
    CHECK(store.found().waits(2, 5));
    CHECK_FALSE(store.found().waits(1, 5));
}

TEST_CASE("a message that comes back to an owner that has completed it waits for the owner again") {
    Store store(each_kind());
    commit(*store, {session(1), put(5, {1}), put(7, {1}), put(9, {1})});
    commit(*store, {Done{.owner = 1, .beyond = {9}}});  // while older ones wait
    commit(*store, {put(9, {1})});
    commit(*store, {Done{.owner = 1, .beyond = {7}}, put(7, {1})});
    commit(*store, {});
    CHECK(stored_of(*store, {7, 9}) == std::vector<Stamp>{7, 9});
    store.restart();
    CHECK(store.found().waits(1, 7));
    CHECK(store.found().waits(1, 9));
}

TEST_CASE("a message that gets receivers again while many are to be deleted is kept") {
    constexpr Stamp many = 3000;
    Store store;
    std::vector<Operation> operations{session(1), session(2, "bob")};
    for (Stamp stamp = 1; stamp <= many; ++stamp) operations.push_back(put(stamp, {1}));
    commit(*store, std::move(operations));
    store.disk().hold_syncs();
    submit(*store, {Done{.owner = 1, .upto = many}});
    store.disk().await_sync();
    submit(*store, {put(many, {2})});  // with the first deletions
    store.disk().release_syncs();
    REQUIRE(comes_true([&] {
        if (stored_of(*store, {many - 1}).empty()) return true;
        commit(*store, {});
        return false;
    }));
    CHECK(stored_of(*store, {many}).size() == 1);
    store.restart();
    CHECK(store.found().stamps() == std::vector{many});
}

TEST_CASE("a message that is stored late is found at the next start, though later ones are done") {
    Store store(each_kind());
    commit(*store, {session(1), session(2, "bob"), put(5, {1, 2}), put(9, {1, 2})});
    commit(*store, {Done{.owner = 1, .upto = 9}});
    commit(*store, {put(7, {1, 2})});
    store.restart();
    CHECK(store.found().waits(1, 7));
    CHECK_FALSE(store.found().waits(1, 5));
    CHECK_FALSE(store.found().waits(1, 9));
    CHECK(store.found().waits(2, 9));
}

TEST_CASE("a message that is stored late costs the same, whatever was stored since") {
    Store store({.wal_bytes = 1 << 30});
    std::vector<Operation> operations{session(1), session(2, "bob")};
    constexpr Stamp last = 50'000'000;
    for (Stamp stamp = 1000; stamp <= last; stamp += 1000) operations.push_back(put(stamp, {1, 2}));
    operations.emplace_back(Done{.owner = 1, .upto = last});
    commit(*store, std::move(operations));
    commit(*store, {});
    const std::size_t before = store.wal_size();
    commit(*store, {put(5, {1})});
    CHECK(store.wal_size() - before < 10 * 4096);
    commit(*store, {put(last + 1, {1}), Done{.owner = 1, .beyond = {last + 1}}});
    store.restart();
    CHECK(store.found().waits(1, 5));
    CHECK_FALSE(store.found().waits(1, 1000));
    CHECK_FALSE(store.found().waits(1, last + 1));
    CHECK(store.found().waits(2, 1000));
    commit(*store, {Done{.owner = 1, .beyond = {5}}});
    store.restart();
    CHECK_FALSE(store.found().waits(1, 5));
}

TEST_CASE("a message can get one more receiver, even if that receiver's cursor is beyond it") {
    Store store(each_kind());
    commit(*store, {session(1), session(2, "bob"), put(5, {1}), put(7, {1}), put(9, {1, 2})});
    commit(*store, {Done{.owner = 2, .upto = 9}});
    commit(*store, {PutReceiver{.stamp = 5, .receiver = {.owner = 2, .identifiers = {3}}},
                    PutReceiver{.stamp = 7, .receiver = {.owner = 2}}});
    commit(*store, {Done{.owner = 1, .upto = 9}, Done{.owner = 2, .beyond = {7}}});
    commit(*store, {});
    CHECK(stored_of(*store, {5, 7, 9}) == std::vector<Stamp>{5});
    for (int start = 0; start < 2; ++start) {
        store.restart();
        CHECK(store.found().stamps() == std::vector<Stamp>{5});
        CHECK(store.found().waits(2, 5));
        CHECK(store.found().text().find("message 5 for 2: 1 false 3") != std::string::npos);
    }
}

TEST_CASE("a receiver of a message that was never stored is forgotten at the next start") {
    Store store(each_kind());
    commit(*store, {session(1), PutReceiver{.stamp = 5, .receiver = {.owner = 1}}});
    store.restart();
    CHECK(store.found().stamps().empty());
    commit(*store, {});
    commit(*store, {put(5, {})});
    store.restart();
    CHECK(store.found().stamps().empty());
}

TEST_CASE("a later receiver's row ends with its acknowledgement, though others wait") {
    constexpr OwnerId last = 400;
    Store store;
    std::vector<Operation> operations{session(1), put(5, {1})};
    for (OwnerId owner = 2; owner <= last; ++owner) {
        operations.push_back(session(owner, std::to_string(owner)));
        operations.push_back(PutReceiver{.stamp = 5, .receiver = {.owner = owner}});
    }
    commit(*store, std::move(operations));
    operations.clear();
    for (OwnerId owner = 2; owner <= last; ++owner)
        operations.push_back(Done{.owner = owner, .beyond = {5}});
    SUBCASE("in the same process") {}
    SUBCASE("after a restart") { store.restart(); }
    commit(*store, std::move(operations));
    store.restart();
    CHECK(store.found().stamps() == std::vector<Stamp>{5});
    CHECK(store.found().waits(1, 5));
    CHECK_FALSE(store.found().waits(2, 5));
    store.run(
        "CREATE TEMP TABLE found(rows CHECK(rows = 0));"
        " INSERT INTO found SELECT count(*) FROM receiver");
}

TEST_CASE("a unit that breaks a rule of the tables is refused alone") {
    const QuietLog quiet;
    Store store;
    store.run(never_bad);
    store.disk().hold_syncs();
    auto blocking = submit(*store, {session(1)});
    store.disk().await_sync();
    auto before = submit(*store, {put(5, {1})});
    auto wrong = submit(*store, {put(6, {1}), bad, put(7, {1})});
    auto after = submit(*store, {put(8, {1})});
    store.disk().release_syncs();
    CHECK(before.get() == Outcome::committed);
    CHECK(wrong.get() == Outcome::refused);
    CHECK(after.get() == Outcome::committed);
    CHECK(stored_of(*store, {5, 6, 7, 8}) == std::vector<Stamp>{5, 8});
}

TEST_CASE("units that arrive during a commit are the next commit, with one sync") {
    Store store;
    commit(*store, {session(1)});
    const auto before = store.disk().syncs();
    store.disk().hold_syncs();
    std::vector<std::future<Outcome>> told;
    told.push_back(submit(*store, {put(1, {1})}));
    store.disk().await_sync();
    for (Stamp stamp = 2; stamp < 8; ++stamp) told.push_back(submit(*store, {put(stamp, {1})}));
    store.disk().release_syncs();
    for (auto& each : told) CHECK(each.get() == Outcome::committed);
    CHECK(store.disk().syncs() == before + 2);
}

TEST_CASE("lazy units wait for the next commit") {
    Store store;
    commit(*store, {session(1)});
    const auto before = store.disk().syncs();
    for (Stamp stamp = 1; stamp < 4; ++stamp) store->submit_lazily({{put(stamp, {1})}, {}});
    commit(*store, {});
    CHECK(store.disk().syncs() == before + 1);
    CHECK(stored_of(*store, {1, 3}).size() == 2);
}

TEST_CASE("lazy units wait no longer than a second") {
    Store store(each_kind());
    std::promise<Outcome> told;
    store->submit_lazily({{session(1)}, [&](Outcome outcome, auto&) { told.set_value(outcome); }});
    CHECK(told.get_future().get() == Outcome::committed);
}

TEST_CASE("the end of a ledger commits what was submitted, lazily too") {
    Store store(each_kind());
    auto told = submit(*store, {session(1), put(5, {1})});
    store->submit_lazily({{put(6, {1})}, {}});
    store.restart();
    CHECK(told.get() == Outcome::committed);
    CHECK(store.found().waits(1, 5));
    CHECK(store.found().waits(1, 6));
}

TEST_CASE("a full disk keeps units waiting until there is room") {
    const QuietLog quiet;
    Store store;
    auto told = submit_in_trouble(store, SQLITE_FULL);
    CHECK(told.wait_for(50ms) == std::future_status::timeout);
    store.disk().mend();
    CHECK(told.get() == Outcome::committed);
    CHECK_FALSE(store->refusing());
    CHECK(stored_of(*store, {5}).size() == 1);
}

TEST_CASE("a disk that fails for too long has everything refused, until it works again") {
    const QuietLog quiet;
    Store store({.patience = 20ms});
    commit(*store, {session(1), put(4, {1})});
    store.disk().break_down(SQLITE_IOERR_WRITE);
    CHECK(commit(*store, {put(5, {1})}) == Outcome::refused);
    CHECK(store->refusing());
    CHECK(commit(*store, {put(6, {1})}) == Outcome::refused);
    CHECK(stored_of(*store, {4}).empty());
    store.disk().mend();
    while (commit(*store, {put(7, {1})}) == Outcome::refused) {
    }
    CHECK_FALSE(store->refusing());
    CHECK(stored_of(*store, {4, 5, 6, 7}) == std::vector<Stamp>{4, 7});
}

TEST_CASE("units that a source submits before it knows of a refusal are refused, too") {
    const QuietLog quiet;
    Store store({.patience = 20ms});
    commit(*store, {session(1)});
    store.disk().break_down(SQLITE_IOERR_WRITE);
    CHECK(submit(*store, {put(5, {1})}, 1).get() == Outcome::refused);
    store.disk().mend();
    while (commit(*store, {put(7, {1})}) == Outcome::refused) {
    }
    CHECK(submit(*store, {put(8, {1})}, 1).get() == Outcome::refused);
    CHECK(submit(*store, {put(9, {1})}, 2).get() == Outcome::committed);
    CHECK(submit(*store, {put(5, {1}), put(8, {1})}, 1, 1).get() == Outcome::committed);
    CHECK(submit(*store, {put(10, {1})}, 1, 1).get() == Outcome::committed);
    CHECK(stored_of(*store, {5, 7, 8, 9, 10}) == std::vector<Stamp>{5, 7, 8, 9, 10});
}

TEST_CASE(
    "an operation that the database never takes is left out, and all else of its source is "
    "committed") {
    const QuietLog quiet;
    Store store;
    store.run(never_bad);
    commit(*store, {session(1)});
    const PutSubscription good{.owner = 1, .filter = "good"};
    auto before = submit(*store, {put(5, {1})}, 2);
    auto mistaken = submit(*store, {good, bad, put(6, {1}), bad}, 1);
    auto after = submit(*store, {put(7, {1})}, 1);
    CHECK(before.get() == Outcome::committed);
    CHECK(mistaken.get() == Outcome::incomplete);
    CHECK(after.get() == Outcome::committed);
    CHECK(store->left_out() == 2);
    CHECK_FALSE(store->refusing());
    store.restart();
    StoredState right;
    right.apply({.operations = {session(1), good, put(5, {1}), put(6, {1}), put(7, {1})}});
    CHECK(store.found().text() == right.text());
}

TEST_CASE("a new owner with the name of an old one ends the old one") {
    const QuietLog quiet;
    Store store(each_kind());
    commit(*store, {session(1), put(5, {1})});
    CHECK(commit(*store, {session(2), put(6, {1, 2})}) == Outcome::committed);
    store.restart();
    CHECK_FALSE(store.found().waits(1, 5));
    CHECK_FALSE(store.found().waits(1, 6));
    CHECK(store.found().waits(2, 6));
}

TEST_CASE("a ledger ends soon though the disk fails, and the next start knows it") {
    const QuietLog quiet;
    Store store({.stop_patience = 5ms});
    const std::uint64_t version_floor = store.began().version_floor;
    commit(*store, {session(1)});
    store.disk().break_down(SQLITE_IOERR_FSYNC);
    std::promise<Outcome> told;
    store->submit({{put(5, {1})}, [&](Outcome outcome, auto&) {
                       store.disk().mend();  // just before the ledger is closed
                       told.set_value(outcome);
                   }});
    store.stop();
    CHECK(told.get_future().get() == Outcome::refused);
    store.start();
    CHECK(commit(*store, {put(6, {1})}) == Outcome::committed);
    // Users are stored lazily: versions that were told before the stop are below the next floor.
    CHECK(store.began().version_floor > version_floor);
}

TEST_CASE("a stop waits for a disk that fails for a moment") {
    const QuietLog quiet;
    Store store({.stop_patience = 60s});
    auto told = submit_in_trouble(store, SQLITE_IOERR_FSYNC);
    std::thread mending([&] {
        CHECK(told.wait_for(20ms) == std::future_status::timeout);
        store.disk().mend();
    });
    store.stop();
    mending.join();
    CHECK(told.get() == Outcome::committed);
}

TEST_CASE("after three failed syncs the log is written anew before anybody is told") {
    const QuietLog quiet;
    Store store;
    commit(*store, {session(1)});
    CHECK(store.wal_size() > 0);
    store.disk().fail_at(0, FaultyDisk::Fault::sync_error, 2);
    CHECK(commit(*store, {put(5, {1})}) == Outcome::committed);
    CHECK(store.wal_size() > 0);
    store.disk().fail_at(0, FaultyDisk::Fault::sync_error, 3);
    CHECK(commit(*store, {put(6, {1})}) == Outcome::committed);
    CHECK(store.wal_size() == 0);
}

TEST_CASE("a log that can't be written anew for too long has everything refused, until it can") {
    const QuietLog quiet;
    Store store({.patience = 20ms});
    commit(*store, {session(1)});
    store.disk().fail_at(0, FaultyDisk::Fault::sync_error, 3);
    store.break_database();
    CHECK(commit(*store, {put(5, {1})}) == Outcome::refused);
    CHECK(store->refusing());
    CHECK(store->trouble() != "");
    CHECK(commit(*store, {put(6, {1})}) == Outcome::refused);
    store.disk().mend();
    while (commit(*store, {put(7, {1})}) == Outcome::refused) {
    }
    CHECK_FALSE(store->refusing());
    // The first one may be stored, but nothing was promised.
    CHECK(stored_of(*store, {6, 7}) == std::vector<Stamp>{7});
}

TEST_CASE("with fsync = 1s, one failed sync has everything refused if the disk still fails") {
    const QuietLog quiet;
    Store store({.fsync = Fsync::each_second, .patience = 20ms});
    commit(*store, {session(1)});
    store.disk().hold_syncs();
    submit(*store, {put(5, {1})});
    store.disk().await_sync();
    store.disk().break_down(SQLITE_IOERR_FSYNC);
    store.disk().release_syncs();
    CHECK(commit(*store, {put(6, {1})}) == Outcome::refused);
    CHECK(store->refusing());
    store.disk().mend();
    while (store->refusing()) stored_of(*store, {});
    CHECK(commit(*store, {put(7, {1})}) == Outcome::committed);
    CHECK(stored_of(*store, {6, 7}) == std::vector<Stamp>{7});
}

TEST_CASE("the log stays short") {
    constexpr std::size_t limit = 50 * 4096;
    Store store({.wal_bytes = limit});
    commit(*store, {session(1)});
    std::size_t written = 0;
    for (Stamp stamp = 1; written < 10 * limit; ++stamp, written += 10'000)
        commit(*store, {put(stamp, {1}, std::string(10'000, 'x'))});
    CHECK(store.wal_size() < 2 * limit);
}

TEST_CASE("fsync = never syncs nothing at a commit") {
    Store store({.fsync = Fsync::never});
    commit(*store, {session(1)});
    const auto before = store.disk().syncs();
    for (Stamp stamp = 1; stamp < 10; ++stamp) commit(*store, {put(stamp, {1})});
    CHECK(store.disk().syncs() == before);
}

TEST_CASE("fsync = 1s syncs the log within a second") {
    Store store({.fsync = Fsync::each_second});
    commit(*store, {session(1)});
    const auto before = store.disk().syncs();
    const auto begun = std::chrono::steady_clock::now();
    for (Stamp stamp = 1; stamp < 10; ++stamp) commit(*store, {put(stamp, {1})});
    const std::chrono::seconds syncs(store.disk().syncs() - before);
    CHECK(syncs < std::chrono::steady_clock::now() - begun + 1s);
    store.disk().hold_syncs();
    auto last = submit(*store, {put(10, {1})});
    store.disk().await_sync();
    store.disk().release_syncs();
    CHECK(last.get() == Outcome::committed);
}

TEST_CASE("the floor is above all earlier stamps, even if they were far ahead") {
    Store store(each_kind());
    const Stamp future = stamp_at(wall_now() + 86'400'000);
    const Stamp first = store.began().floor;
    commit(*store, {session(1), put(future, {1})});
    store.restart();
    CHECK(store.began().floor > first);
    CHECK(store.began().floor > future);
}

TEST_CASE("the number of an owner that has ended is not given again while a message mentions it") {
    Store store(each_kind());
    commit(*store, {session(1), session(7, "bob"), put(5, {1, 7})});
    commit(*store, {EndOwner{7}});
    store.restart();
    CHECK(store.began().owners.first == 8);
    CHECK_FALSE(store.found().waits(7, 5));
    CHECK(store.found().waits(1, 5));
}
