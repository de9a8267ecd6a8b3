#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/files/store_files.h"
#include "server/store/pages/page_checksum.h"
#include "server/store/pages/page_image.h"
#include "server/store/pages/wal_file.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_store.h"

using namespace pulsegate;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr std::array store_names{"lock", "pulsegate.db", "pulsegate.db-wal"};

/// A real folder, and a gateway's ledger that uses it.
class UsedFolder {
public:
    std::string folder() const { return folder_.path("data"); }
    std::string path(const std::string& name) const { return folder() + '/' + name; }

    SqliteLedger& start() {
        failed_ = false;
        SqliteLedger::Options options;
        options.folder = folder();
        options.patience = 100ms;
        options.first_pause = 1ms;
        options.failed = [this] { failed_ = true; };
        ledger_ = std::make_unique<SqliteLedger>(options);
        found_ = StoredState();
        found_.read(*ledger_);
        return *ledger_;
    }
    bool stop() {
        const bool in_order = ledger_->close();
        ledger_.reset();
        return in_order;
    }

    /// Between two starts.
    void run(const char* sql) const {
        Database opened(path("pulsegate.db"));
        opened.run("PRAGMA locking_mode = EXCLUSIVE");
        opened.run(sql);
        CHECK(opened.error_text() == "");
    }

    SqliteLedger& operator*() { return *ledger_; }
    SqliteLedger* operator->() { return ledger_.get(); }
    bool has_failed() const { return failed_; }
    const StoredState& found() const { return found_; }

private:
    TemporaryFolder folder_;
    std::atomic<bool> failed_{false};
    StoredState found_;
    std::unique_ptr<SqliteLedger> ledger_;
};

/// The index of bans that end has lost what was in it; all tables can be read.
constexpr const char* empty_index =
    "PRAGMA writable_schema = ON; CREATE TABLE other(a); CREATE INDEX empty ON other(a);"
    "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'empty')"
    " WHERE name = 'ban_ends';"
    "DELETE FROM sqlite_schema WHERE name = 'empty' OR name = 'other'";

const PutBan ban{.user = "eve", .client = "", .address = "", .ends = 1, .reason = "spam"};

}  // namespace

TEST_CASE("damage that only a write finds ends the ledger, and the next start salvages the rest") {
    const QuietLog quiet;
    UsedFolder store;
    store.start();
    commit(*store, {session(1), put(5, {1}), ban});
    CHECK(store.stop());
    store.run(empty_index);
    store.start();
    CHECK(store->trouble().empty());
    CHECK(commit(*store, {DropBan{.user = "eve", .client = "", .address = ""}}) ==
          Outcome::refused);
    CHECK(store.has_failed());
    CHECK(store->refusing());
    CHECK(store->trouble().find("malformed") != std::string::npos);
    CHECK(commit(*store, {session(2, "bob")}) == Outcome::refused);
    CHECK(stored_of(*store, {5}).empty());
    CHECK_FALSE(store.stop());
    CHECK(fs::exists(store.path("pulsegate.db-damaged")));
    store.start();
    CHECK(store.found().waits(1, 5));
    CHECK(store.found().text().find("eve") != std::string::npos);
    CHECK_FALSE(fs::exists(store.path("pulsegate.db-damaged")));
    CHECK(commit(*store, {DropBan{.user = "eve", .client = "", .address = ""}}) ==
          Outcome::committed);
    CHECK(store.stop());
}

TEST_CASE("messages of several pages are read from the log alone when the database is lost") {
    const QuietLog quiet;
    const std::vector<Stamp> stamps{1, 2, 3, 4, 5};
    UsedFolder store;
    store.start();
    std::vector<Operation> many{session(1)};
    for (const Stamp stamp : stamps) many.push_back(put(stamp, {1}, std::string(20'000, 'x')));
    CHECK(commit(*store, std::move(many)) == Outcome::committed);
    CHECK(stored_of(*store, stamps) == stamps);
    const TemporaryFolder killed;
    const std::string data = killed.path("data");
    fs::copy(store.folder(), data, fs::copy_options::recursive);
    const std::string database = data + "/pulsegate.db";
    std::ofstream(database) << std::string(10'000, 'z');
    const WalFile wal(database + "-wal");
    CHECK(PageImage(database, &wal).usable() == checked_page_size - page_checksum_size);
    fs::remove(database);
    SqliteLedger ledger({.folder = data});
    StoredState state;
    state.read(ledger);
    CHECK(stored_of(ledger, stamps) == stamps);
    for (const Stamp stamp : stamps) CHECK(state.waits(1, stamp));
}

TEST_CASE("a folder that is moved counts as a failing disk until it comes back") {
    const QuietLog quiet;
    UsedFolder store;
    store.start();
    CHECK(commit(*store, {session(1)}) == Outcome::committed);
    fs::rename(store.folder(), store.folder() + "-elsewhere");
    CHECK(commit(*store, {put(5, {1})}) == Outcome::refused);
    CHECK(store->trouble().find("was moved") != std::string::npos);
    fs::rename(store.folder() + "-elsewhere", store.folder());
    CHECK(comes_true([&] { return !store->refusing(); }));
    CHECK(commit(*store, {put(7, {1})}) == Outcome::committed);
    CHECK_FALSE(store.has_failed());
    CHECK(store.stop());
    store.start();
    CHECK(store.found().waits(1, 7));
    CHECK_FALSE(store.found().waits(1, 5));
}

TEST_CASE("an idle ledger notices that a file of its own is gone, whichever it is") {
    const QuietLog quiet;
    for (const char* name : store_names)
        for (const bool is_replaced : {false, true}) {
            CAPTURE(name);
            CAPTURE(is_replaced);
            UsedFolder store;
            store.start();
            commit(*store, {session(1)});
            const std::string path = store.path(name);
            fs::copy(path, path + ".copy");
            fs::remove(path);
            if (is_replaced) fs::rename(path + ".copy", path);
            CHECK(comes_true([&] { return store->refusing(); }));
            CHECK(store->trouble().find(path) != std::string::npos);
            CHECK(commit(*store, {put(5, {1})}) == Outcome::refused);
            CHECK_FALSE(store.stop());
        }
}

TEST_CASE("a database or WAL that is cut ends the ledger, and nothing is told committed any more") {
    const QuietLog quiet;
    for (const std::string name : {"pulsegate.db", "pulsegate.db-wal"}) {
        CAPTURE(name);
        UsedFolder store;
        store.start();
        commit(*store, {session(1), put(5, {1}, std::string(100'000, 'x'))});
        fs::resize_file(store.path(name), fs::file_size(store.path(name)) / 2);
        CHECK(commit(*store, {put(7, {1})}) == Outcome::refused);
        CHECK(comes_true([&] { return store.has_failed(); }));
        CHECK(store->trouble().find("was cut") != std::string::npos);
        CHECK_FALSE(store.stop());
    }
}

TEST_CASE("a ledger shortens its own files without a complaint") {
    UsedFolder store;
    store.start();
    std::vector<Operation> many{session(1)};
    for (Stamp stamp = 1; stamp <= 300; ++stamp)
        many.push_back(put(stamp, {1}, std::string(100'000, 'x')));
    commit(*store, std::move(many));
    commit(*store, {Done{.owner = 1, .upto = 300}});
    CHECK(comes_true([&] { return fs::file_size(store.path("pulsegate.db")) < 15'000'000; }));
    CHECK(store->trouble().empty());
    CHECK(store.stop());
}
