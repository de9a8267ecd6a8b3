#include "server/store/ledger.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/schema.h"
#include "server/store/sqlite_ledger.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ledger_model.h"
#include "tests/support/quiet_log.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    REQUIRE(file);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::future<Outcome> submit(Ledger& ledger, std::vector<Operation> operations,
                            std::uint32_t source = 0, std::uint32_t generation = 0) {
    auto told = std::make_shared<std::promise<Outcome>>();
    ledger.submit({std::move(operations),
                   [told](Outcome outcome, auto&) { told->set_value(outcome); }, source,
                   generation});
    return told->get_future();
}

Outcome commit(Ledger& ledger, std::vector<Operation> operations) {
    return submit(ledger, std::move(operations)).get();
}

std::optional<PutOwner> find(Ledger& ledger, std::string user, std::string client) {
    std::promise<std::optional<PutOwner>> found;
    ledger.find_owner(OwnerKind::session, std::move(user), std::move(client),
                      [&](Outcome, std::optional<PutOwner> owner) { found.set_value(owner); });
    return found.get_future().get();
}

std::vector<Stamp> stored_of(Ledger& ledger, std::vector<Stamp> stamps) {
    std::promise<std::vector<Stamp>> answered;
    ledger.read_messages(std::move(stamps), [&](Outcome, std::vector<StoredMessage> found) {
        std::vector<Stamp> there;
        for (const StoredMessage& each : found) there.push_back(each.stamp);
        answered.set_value(there);
    });
    return answered.get_future().get();
}

PutOwner session(OwnerId owner, std::string user = "ann") {
    return {.owner = owner, .user = std::move(user), .client = "phone", .expiry = 60};
}

PutMessage put(Stamp stamp, std::vector<OwnerId> owners, std::string payload = "hello") {
    PutMessage made{.stamp = stamp, .message = message("topic", std::move(payload))};
    for (const OwnerId owner : owners) made.receivers.push_back({.owner = owner});
    return made;
}

/// A ledger on a disk in memory that can fail, which starts and ends as the test likes.
class Store {
public:
    explicit Store(SqliteLedger::Options options = {}) : options_(std::move(options)) {
        options_.folder = folder_.path("data");
        options_.vfs = disk_.vfs();
        options_.first_pause = 1ms;
        start();
    }

    void start() {
        ledger_ = std::make_unique<SqliteLedger>(options_);
        found_ = StoredState();
        began_ = found_.read(*ledger_);
    }
    void stop() { ledger_.reset(); }
    void restart() {
        stop();
        start();
    }

    SqliteLedger& operator*() { return *ledger_; }
    SqliteLedger* operator->() { return ledger_.get(); }
    FaultyDisk& disk() { return disk_; }
    std::size_t wal_size() const { return disk_.size(options_.folder + "/pulsegate.db-wal"); }
    /// What the last start has found.
    const StoredState& found() const { return found_; }
    const Ledger::Start& began() const { return began_; }

private:
    TemporaryFolder folder_;
    FaultyDisk disk_;
    SqliteLedger::Options options_;
    StoredState found_;
    Ledger::Start began_;
    std::unique_ptr<SqliteLedger> ledger_;
};

/// A folder with a database that is written to directly.
class RealStore {
public:
    std::string folder() const { return folder_.path("data"); }
    std::string database() const { return folder() + "/pulsegate.db"; }

    void fill(std::vector<Operation> operations) {
        SqliteLedger ledger({.folder = folder()});
        StoredState state;
        state.read(ledger);
        CHECK(commit(ledger, std::move(operations)) == Outcome::committed);
    }

    void run(const std::string& sql) {
        sqlite3* database_handle = nullptr;
        REQUIRE(sqlite3_open(database().c_str(), &database_handle) == SQLITE_OK);
        CHECK(sqlite3_exec(database_handle, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
        sqlite3_close(database_handle);
    }

    std::string start_complaint() const {
        return complaint([&] { SqliteLedger ledger({.folder = folder()}); });
    }

    StoredState state() const {
        SqliteLedger ledger({.folder = folder()});
        StoredState state;
        state.read(ledger);
        return state;
    }

    /// Overwrites every place where `text` stands with other bytes.
    void damage(const std::string& text) {
        std::string bytes = folder_.read("data/pulsegate.db");
        for (auto at = bytes.find(text); at != std::string::npos; at = bytes.find(text, at + 1))
            bytes[at] ^= 1;
        folder_.write("data/pulsegate.db", bytes);
    }

    /// Overwrites the whole page that `text` stands in.
    void damage_page(const std::string& text) {
        constexpr std::size_t page = 4096;
        std::string bytes = folder_.read("data/pulsegate.db");
        const auto at = bytes.find(text);
        REQUIRE(at != std::string::npos);
        bytes.replace(at / page * page, page, std::string(page, '\x5a'));
        folder_.write("data/pulsegate.db", bytes);
    }

    std::size_t set_aside() const {
        std::size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder()))
            count += entry.path().filename().string().starts_with("pulsegate.db.bad-") &&
                     !entry.path().string().ends_with("-wal");
        return count;
    }

private:
    TemporaryFolder folder_;
};

/// Ann's, with the number 1 of its second.
PutDelayed delayed(std::int64_t due, std::optional<std::string> name = std::nullopt) {
    return {.id = delayed_id(due, 1),
            .user = "ann",
            .name = std::move(name),
            .message = message("d", "later")};
}

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
    ledger.find_owner(OwnerKind::session, "ann", "phone",
                      [&](Outcome, auto) { order.push_back(3); });
    ledger.submit_lazily({{}, note(4)});
    CHECK(commit(ledger, {EndOwner{1}}) == Outcome::committed);
    CHECK(order == std::vector{1, 2, 3, 4});
    CHECK_FALSE(ledger.refusing());
}

TEST_CASE("a real folder has at the next start what was stored") {
    RealStore store;
    const std::vector<Operation> operations{
        session(1),
        PutSubscription{.owner = 1, .filter = "a/#", .options = 2, .identifier = 9, .owed = true},
        put(10, {1}),
        put(11, {1}, std::string(100'000, 'x')),
        PutRetained{.stamp = 3, .message = message("r", "")},
        PutUser{.name = "ann", .version = 9}};
    store.fill(operations);
    StoredState expected;
    expected.apply({.operations = operations});
    CHECK(store.state().text() == expected.text());
    CHECK(store.state().text() == expected.text());
}

TEST_CASE("reads see what was submitted before, and no more than is stored") {
    Store store;
    submit(*store, {session(1), put(5, {1}), put(7, {1})});
    CHECK(find(*store, "ann", "phone") == session(1));
    CHECK_FALSE(find(*store, "ann", "laptop"));
    CHECK(stored_of(*store, {7, 6, 5}) == std::vector<Stamp>{7, 5});
}

TEST_CASE("a message is deleted when none of its receivers waits for it any more") {
    Store store;
    commit(*store, {session(1), session(2, "bob"), session(3, "eve"), put(5, {1, 2, 3, 99})});
    commit(*store, {Done{.owner = 1, .upto = 5}, EndOwner{3}});
    commit(*store, {});
    CHECK(stored_of(*store, {5}) == std::vector<Stamp>{5});
    commit(*store, {Done{.owner = 2, .beyond = {5}}});
    commit(*store, {});
    CHECK(stored_of(*store, {5}).empty());
}

TEST_CASE("a message that nobody waited for any more can get receivers again") {
    Store store;
    commit(*store, {session(1), session(2, "bob"), put(5, {1})});
    commit(*store, {Done{.owner = 1, .upto = 5}});
    commit(*store, {put(5, {2})});
    commit(*store, {});
    CHECK(stored_of(*store, {5}) == std::vector<Stamp>{5});
    store.restart();
    CHECK(store.found().waits(2, 5));
    CHECK_FALSE(store.found().waits(1, 5));
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
    while (!stored_of(*store, {many - 1}).empty()) commit(*store, {});
    CHECK(stored_of(*store, {many}).size() == 1);
    store.restart();
    CHECK(store.found().stamps() == std::vector{many});
}

TEST_CASE("a message that is stored late is found at the next start, though later ones are done") {
    Store store;
    commit(*store, {session(1), session(2, "bob"), put(5, {1, 2}), put(9, {1, 2})});
    commit(*store, {Done{.owner = 1, .upto = 9}});
    commit(*store, {put(7, {1, 2})});
    store.restart();
    CHECK(store.found().waits(1, 7));
    CHECK_FALSE(store.found().waits(1, 5));
    CHECK_FALSE(store.found().waits(1, 9));
    CHECK(store.found().waits(2, 9));
}

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

TEST_CASE("a unit that breaks a rule of the tables is refused alone") {
    const QuietLog quiet;
    Store store;
    store.disk().hold_syncs();
    auto blocking = submit(*store, {session(1)});
    store.disk().await_sync();
    auto before = submit(*store, {put(5, {1})});
    auto wrong = submit(*store, {put(6, {1}), session(2), put(7, {1})});  // the name is taken
    auto after = submit(*store, {put(8, {1})});
    store.disk().release_syncs();
    CHECK(before.get() == Outcome::committed);
    CHECK(wrong.get() == Outcome::refused);
    CHECK(after.get() == Outcome::committed);
    CHECK(stored_of(*store, {5, 6, 7, 8}) == std::vector<Stamp>{5, 8});
}

TEST_CASE("what arrives during a commit is the next commit, with one sync") {
    Store store;
    commit(*store, {session(1)});
    const auto before = store.disk().syncs();
    store.disk().hold_syncs();
    std::vector<std::future<Outcome>> told;
    told.push_back(submit(*store, {put(1, {1})}));
    store.disk().await_sync();
    for (Stamp stamp = 2; stamp < 50; ++stamp) told.push_back(submit(*store, {put(stamp, {1})}));
    store.disk().release_syncs();
    for (auto& each : told) CHECK(each.get() == Outcome::committed);
    CHECK(store.disk().syncs() == before + 2);
}

TEST_CASE("lazy units wait for the next commit") {
    Store store;
    commit(*store, {session(1)});
    const auto before = store.disk().syncs();
    for (Stamp stamp = 1; stamp < 20; ++stamp) store->submit_lazily({{put(stamp, {1})}, {}});
    commit(*store, {});
    CHECK(store.disk().syncs() == before + 1);
    CHECK(stored_of(*store, {1, 19}).size() == 2);
}

TEST_CASE("lazy units wait no longer than a second") {
    Store store;
    std::promise<Outcome> told;
    store->submit_lazily({{session(1)}, [&](Outcome outcome, auto&) { told.set_value(outcome); }});
    CHECK(told.get_future().get() == Outcome::committed);
}

TEST_CASE("the end of a ledger commits what was submitted, lazily too") {
    Store store;
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
    commit(*store, {session(1)});
    store.disk().break_down(SQLITE_FULL);
    auto told = submit(*store, {put(5, {1})});
    CHECK(told.wait_for(50ms) == std::future_status::timeout);
    store.disk().mend();
    CHECK(told.get() == Outcome::committed);
    CHECK_FALSE(store->refusing());
    CHECK(stored_of(*store, {5}).size() == 1);
}

TEST_CASE("a disk that fails for too long has everything refused, until it works again") {
    const QuietLog quiet;
    Store store({.patience = 20ms});
    commit(*store, {session(1)});
    store.disk().break_down(SQLITE_IOERR_WRITE);
    CHECK(commit(*store, {put(5, {1})}) == Outcome::refused);
    CHECK(store->refusing());
    CHECK(commit(*store, {put(6, {1})}) == Outcome::refused);
    CHECK_FALSE(find(*store, "ann", "phone"));
    store.disk().mend();
    while (commit(*store, {put(7, {1})}) == Outcome::refused) {
    }
    CHECK_FALSE(store->refusing());
    CHECK(stored_of(*store, {5, 6, 7}) == std::vector<Stamp>{7});
}

TEST_CASE("what a source submits before it knows that a unit was refused is refused, too") {
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

TEST_CASE("a ledger ends at once though the disk fails, and refuses what it could not commit") {
    const QuietLog quiet;
    Store store;
    commit(*store, {session(1)});
    store.disk().break_down(SQLITE_IOERR_FSYNC);
    auto told = submit(*store, {put(5, {1})});
    store.stop();
    CHECK(told.get() == Outcome::refused);
    store.disk().mend();
    store.start();
    CHECK(commit(*store, {put(6, {1})}) == Outcome::committed);
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
    for (Stamp stamp = 1; stamp < 10; ++stamp) commit(*store, {put(stamp, {1})});
    CHECK(store.disk().syncs() <= before + 1);
    store.disk().hold_syncs();
    store.disk().await_sync();
    store.disk().release_syncs();
}

TEST_CASE("the floor is above all stamps of the time before, however far ahead they were") {
    Store store;
    const Stamp future = stamp_at(wall_now() + 86'400'000);
    const Stamp first = store.began().floor;
    commit(*store, {session(1), put(future, {1})});
    store.restart();
    CHECK(store.began().floor > first);
    CHECK(store.began().floor > future);
}

TEST_CASE("the number of an owner that has ended is not given again while a message mentions it") {
    Store store;
    commit(*store, {session(1), session(7, "bob"), put(5, {1, 7})});
    commit(*store, {EndOwner{7}});
    store.restart();
    CHECK(store.began().next_owner == 8);
    CHECK_FALSE(store.found().waits(7, 5));
    CHECK(store.found().waits(1, 5));
}

TEST_CASE("a folder that another server uses is refused, with its process id") {
    const TemporaryFolder folder;
    const SqliteLedger first({.folder = folder.path("data")});
    const auto why = complaint([&] { SqliteLedger second({.folder = folder.path("data")}); });
    CHECK(why.find("process " + std::to_string(::getpid()) + " uses it") != std::string::npos);
    CHECK(why.find('\n') == std::string::npos);
}

TEST_CASE("a folder that can't be used is refused with the setting's name") {
    const TemporaryFolder folder;
    const std::string file = folder.write("file", "");
    for (const std::string& path : {file, file + "/below", folder.path("no/such/folder")}) {
        const auto why = complaint([&] { SqliteLedger ledger({.folder = path}); });
        CAPTURE(why);
        CHECK(why.find(path) != std::string::npos);
        CHECK(why.find("--data") != std::string::npos);
    }
}

TEST_CASE("a database of a newer version is refused with both versions") {
    RealStore store;
    store.fill({session(1)});
    store.run("PRAGMA user_version = 99");
    CHECK(store.start_complaint().find(fmt::format(
              "it has format 99, and this Pulsegate knows formats up to {}", newest_schema())) !=
          std::string::npos);
}

TEST_CASE("a database of each earlier version is migrated with all that is in it") {
    // A new version needs the dump of a database that the last one has filled.
    for (int version = 1; version < newest_schema(); ++version) {
        RealStore store;
        std::filesystem::create_directory(store.folder());
        store.run(
            text_of(fmt::format("{}/tests/data/store-{}.sql", PULSEGATE_SOURCE_DIR, version)));
        const StoredState found = store.state();
        CHECK(found.stamps().size() == 4);
        CHECK(found.waits(1, 1882600456713142272));  // ann, in room/lobby
        CHECK(found.waits(2, 1882600456713142272));  // bob
        CHECK(found.waits(1, 1882600456720482304));  // ann, in the inbox
        CHECK(found.waits(3, 1882600456728870912));  // carl, a job
        for (const char* line :
             {"owner 2 0 bob laptop 604800 5", "subscription 3 $share/workers/jobs/+ 1 0 false",
              "retained 1882600456737259520", "user carl 1795387703615",
              "body 1882600456713142272"})
            CHECK(found.text().find(line) != std::string::npos);
        CHECK(found.text().find("missing") == std::string::npos);
        const bool has_delayed =
            found.text().find("delayed 4066165800354971650 eve later") != std::string::npos;
        CHECK(has_delayed == (version > 1));
        store.fill({delayed(100)});
    }
}

TEST_CASE("a database of another program is refused") {
    RealStore store;
    std::filesystem::create_directory(store.folder());
    store.run("CREATE TABLE theirs(x)");
    CHECK(store.start_complaint().find("it is not a database of Pulsegate") != std::string::npos);
}

TEST_CASE("a damaged database is set aside, and what is readable goes on") {
    const QuietLog quiet;
    RealStore store;
    std::vector<Operation> operations{session(1), PutUser{.name = "the name of a user"}};
    for (Stamp stamp = 1; stamp <= 200; ++stamp)
        operations.push_back(put(stamp, {1}, std::string(500, 'x') + std::to_string(stamp) + 'y'));
    store.fill(operations);
    store.run("UPDATE meta SET value = 0 WHERE key = 'clean'");
    store.damage_page("x100y");
    const StoredState left = store.state();
    CHECK(store.set_aside() == 1);
    CHECK(left.text().find("owner 1 0 ann phone") != std::string::npos);
    CHECK(left.text().find("the name of a user") != std::string::npos);
    CHECK(left.waits(1, 1));
    CHECK(left.waits(1, 200));
    CHECK_FALSE(left.waits(1, 100));
    CHECK(left.stamps().size() > 180);
    CHECK(store.state().text() == left.text());
    CHECK(store.set_aside() == 1);
}

TEST_CASE("a file that is no database at all is set aside") {
    const QuietLog quiet;
    RealStore store;
    store.fill({session(1)});
    std::ofstream(store.database()) << std::string(10'000, 'z');
    CHECK(store.state().text().empty());
    CHECK(store.set_aside() == 1);
}

TEST_CASE("a message with a flipped bit is not delivered, nor one whose receivers are damaged") {
    const QuietLog quiet;
    RealStore store;
    PutMessage identified = put(7, {1});
    identified.receivers[0].identifiers = {0x41, 0x42, 0x43, 0x44, 0x45, 0x46};
    store.fill({session(1), put(5, {1}, "this is one"), put(6, {1}, "this is two"), identified,
                PutRetained{.stamp = 1, .message = message("r", "this is retained")}});
    store.damage("this is one");
    store.damage("this is retained");
    store.damage("ABCDEF");
    const auto text = store.state().text();
    CHECK(text.find("body 5 is missing") != std::string::npos);
    CHECK(text.find("body 6 0") != std::string::npos);
    CHECK(text.find("message 7") == std::string::npos);
    CHECK(text.find("retained") == std::string::npos);
}
