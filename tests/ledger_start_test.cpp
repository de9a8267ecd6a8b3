#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/database/schema.h"
#include "server/store/pages/page_checksum.h"
#include "server/store/sqlite_ledger.h"
#include "tests/support/quiet_log.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    REQUIRE(file);
    return {std::istreambuf_iterator<char>(file), {}};
}

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

    void run(const char* sql) const {
        Database opened(database());
        opened.run("PRAGMA locking_mode = EXCLUSIVE");
        opened.run(sql);
        CHECK(opened.error_text() == "");
    }

    /// As an older version or another program has it.
    /// As a program makes it that writes checksums, or one that knows none.
    void make_with_checksums(const std::string& sql) const {
        std::filesystem::create_directory(folder());
        Database made(database());
        made.run(sql.c_str());
        CHECK(made.error_text() == "");
    }
    void make(const std::string& sql) const {
        std::filesystem::create_directory(folder());
        sqlite3* made = nullptr;
        REQUIRE(sqlite3_open(database().c_str(), &made) == SQLITE_OK);
        CHECK(sqlite3_exec(made, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
        sqlite3_close(made);
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

    EventLogState events() const { return SqliteLedger({.folder = folder()}).events(); }

    /// Overwrites every place where `text` stands with other bytes, so that the page does not know.
    void damage(const std::string& text) {
        std::string bytes = folder_.read("data/pulsegate.db");
        for (auto at = bytes.find(text); at != std::string::npos; at = bytes.find(text, at + 1)) {
            bytes[at] ^= 1;
            const auto page = at / checked_page_size;
            auto* const begin = reinterpret_cast<unsigned char*>(&bytes[page * checked_page_size]);
            seal_page(PageBytes(begin, checked_page_size), static_cast<std::uint32_t>(page + 1));
        }
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

}  // namespace

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
        const std::string dump =
            text_of(fmt::format("{}/tests/data/store-{}.sql", PULSEGATE_SOURCE_DIR, version));
        version < 9 ? store.make(dump) : store.make_with_checksums(dump);
        const StoredState found = store.state();
        CHECK(found.stamps().size() == 4);
        CHECK(found.waits(1, 1882600456713142272));  // ann, in room/lobby
        CHECK(found.waits(2, 1882600456713142272));  // bob
        CHECK(found.waits(1, 1882600456720482304));  // ann, in the inbox
        CHECK(found.waits(3, 1882600456728870912));  // carl, a job
        for (const char* line :
             {"owner 2 0 bob laptop 604800 5", "subscription 3 $share/workers/jobs/+ 1 0 false",
              "retained 1882600456737259520",
              "user carl 1795387703615 1795387703615 1795387703615 1 0",
              "body 1882600456713142272"})
            CHECK(found.text().find(line) != std::string::npos);
        CHECK(found.text().find("missing") == std::string::npos);
        const bool has_delayed =
            found.text().find("delayed 4066165800354971650 eve later") != std::string::npos;
        CHECK(has_delayed == (version > 1));
        const bool has_member = found.text().find("member room/lobby bob 0\n") != std::string::npos;
        CHECK(has_member == (version > 4));
        CHECK(found.text().find("absence 1 1795992503590 0\n") != std::string::npos);
        store.fill({delayed(100)});
    }
}

TEST_CASE("a database of another program is refused") {
    RealStore store;
    store.make("CREATE TABLE theirs(x)");
    CHECK(store.start_complaint().find("it is not a database of Pulsegate") != std::string::npos);
}

TEST_CASE("what an earlier program may have stored late waits, if it has written meanwhile") {
    RealStore store;
    store.fill({session(1), session(2, "bob"), put(5, {1}), put(7, {1, 2}), put(9, {1, 2}),
                Done{.owner = 1, .upto = 9}});
    store.fill({put(6, {1})});
    const StoredState ours = store.state();
    CHECK(ours.waits(1, 6));
    CHECK_FALSE(ours.waits(1, 7));
    // It does not know that 7 may be one that has come late, and changes no cursor for it.
    store.run("UPDATE meta SET value = value + 1 WHERE key = 'floor'");
    const StoredState theirs = store.state();
    CHECK(theirs.waits(1, 6));
    CHECK(theirs.waits(1, 7));
    CHECK(theirs.waits(1, 9));
    CHECK(store.state().waits(1, 7));  // at the next start, too
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

TEST_CASE("what could be read of a damaged database has another log of events") {
    const QuietLog quiet;
    RealStore store;
    std::vector<Operation> operations{session(1), PutEvent{.body = "{}"}};
    for (Stamp stamp = 1; stamp <= 50; ++stamp)
        operations.push_back(put(stamp, {1}, std::string(500, 'x') + std::to_string(stamp) + 'y'));
    store.fill(operations);
    const EventLogState before = store.events();
    CHECK(store.events().log == before.log);
    store.run("UPDATE meta SET value = 0 WHERE key = 'clean'");
    store.damage_page("x25y");
    const EventLogState left = store.events();
    CHECK(store.set_aside() == 1);
    CHECK(left.last == 1);
    CHECK(left.log != before.log);
}

TEST_CASE("a store that has lost its latest commits has another log of events") {
    const QuietLog quiet;
    const TemporaryFolder killed;
    const std::string data = killed.path("data");
    EventLogState before;
    {
        RealStore store;
        store.fill({PutEvent{.body = "{}"}});
        SqliteLedger ledger({.folder = store.folder()});
        StoredState state;
        state.read(ledger);
        before = ledger.events();
        CHECK(commit(ledger, {PutEvent{.body = "{}"}}) == Outcome::committed);
        stored_of(ledger, {1});  // all files are written
        std::filesystem::copy(store.folder(), data, std::filesystem::copy_options::recursive);
    }
    bool is_lost = true;
    SUBCASE("its write-ahead log is there") { is_lost = false; }
    SUBCASE("its write-ahead log is missing") {
        CHECK(std::filesystem::remove(data + "/pulsegate.db-wal"));
    }
    SUBCASE("its write-ahead log is cut") {
        std::filesystem::resize_file(data + "/pulsegate.db-wal", 100);
    }
    SUBCASE("its write-ahead log and its mark are missing") {
        CHECK(std::filesystem::remove(data + "/pulsegate.db-wal"));
        CHECK(std::filesystem::remove(data + "/pulsegate.db-mark"));
    }
    std::uint64_t log = 0;
    {
        const SqliteLedger ledger({.folder = data});
        log = ledger.events().log;
        CHECK(ledger.events().last == (is_lost ? 1 : 2));
        CHECK((log != before.log) == is_lost);
    }
    CHECK(SqliteLedger({.folder = data}).events().log == log);
}

TEST_CASE("the number of a delayed message is not given again, though it is nowhere else") {
    const QuietLog quiet;
    RealStore store;
    PutDelayed waiting = delayed(5'000'000'000);
    waiting.id = delayed_id(5'000'000'000, 41);
    store.fill({waiting});
    store.damage_page("version_floor");
    SqliteLedger ledger({.folder = store.folder()});
    StoredState state;
    CHECK(state.read(ledger).next_delayed > 41);
    CHECK(store.set_aside() == 1);
}

TEST_CASE("a file that is not a database at all is set aside") {
    const QuietLog quiet;
    RealStore store;
    store.fill({session(1)});
    std::ofstream(store.database()) << std::string(10'000, 'z');
    CHECK(store.state().text().empty());
    CHECK(store.set_aside() == 1);
}

TEST_CASE("a message with a flipped bit is not delivered, nor a message with damaged receivers") {
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
