// Files of a store that are damaged, cut, missing or swapped before a start, and starts that are
// killed: every loss is told, and everything that can be read comes back.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/database/schema.h"
#include "server/store/pages/wal_file.h"
#include "server/store/sqlite_ledger.h"
#include "server/store/start/opening.h"
#include "tests/support/killed_process.h"
#include "tests/support/quiet_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

namespace fs = std::filesystem;

constexpr Stamp messages = 600;
constexpr std::size_t page_bytes = 4096;
/// As large as a message is, so many fit into one page.
constexpr std::size_t messages_in_a_page = 12;

std::string payload_of(std::string_view store, Stamp stamp) {
    return fmt::format("<{}-{:06}>{}", store, stamp, std::string(300, 'x'));
}

/// Of everything that is stored something, some of which is deleted again.
std::vector<Operation> unit_of(std::string_view store, Stamp stamp) {
    const auto owner = static_cast<OwnerId>(stamp % 20 + 1);
    const auto name = fmt::format("{}-{}", store, stamp);
    std::vector<Operation> unit{put(stamp, {owner}, payload_of(store, stamp)),
                                PutUser{.name = name, .version = stamp}};
    if (stamp % 5 == 0) unit.push_back(PutSubscription{.owner = owner, .filter = "room/" + name});
    if (stamp % 7 == 0)
        unit.push_back(PutRetained{.stamp = stamp, .message = message("r/" + name, "kept")});
    if (stamp % 9 == 0) unit.push_back(PutBan{.user = name, .reason = "so"});
    if (stamp % 11 == 0) unit.push_back(PutMember{.topic = "room/a", .user = name});
    if (stamp % 13 == 0) unit.push_back(PutEvent{.body = "{\"n\":\"" + name + "\"}"});
    return unit;
}

void write_store(const std::string& folder, std::string_view store, Stamp first, Stamp last,
                 const std::function<void(Stamp)>& after = {}) {
    SqliteLedger ledger({.folder = folder, .fsync = Fsync::never, .wal_bytes = 400'000});
    StoredState state;
    state.read(ledger);
    if (first == 1) {
        std::vector<Operation> owners;
        for (OwnerId owner = 1; owner <= 20; ++owner)
            owners.push_back(session(owner, fmt::format("user-{}", owner)));
        CHECK(commit(ledger, owners) == Outcome::committed);
    }
    for (Stamp stamp = first; stamp <= last; ++stamp) {
        CHECK(commit(ledger, unit_of(store, stamp)) == Outcome::committed);
        if (!after) continue;
        stored_of(ledger, {stamp});  // the checkpoint after the commit has ended
        after(stamp);
    }
}

void copy_store(const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
}

/// Folders as a process has left them.
struct Snapshots {
    TemporaryFolder folder;
    std::string small = folder.path("small");      ///< killed, with a few messages
    std::string older = folder.path("older");      ///< stopped, long before
    std::string killed = folder.path("killed");    ///< in the middle
    std::string stopped = folder.path("stopped");  ///< with the same messages
    std::string other = folder.path("other");      ///< another store, killed

    Snapshots() {
        const std::string live = folder.path("live");
        write_store(live, "mine", 1, 150, [&](Stamp stamp) {
            if (stamp == 60) copy_store(live, small);
        });
        copy_store(live, older);
        write_store(live, "mine", 151, messages, [&](Stamp stamp) {
            if (stamp == messages) copy_store(live, killed);
        });
        copy_store(live, stopped);
        const std::string theirs = folder.path("theirs");
        write_store(theirs, "theirs", 1, messages, [&](Stamp stamp) {
            if (stamp == messages) copy_store(theirs, other);
        });
    }
};

const Snapshots& snapshots() {
    static const Snapshots made;
    return made;
}

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::set<std::string> lines_of(const std::string& text) {
    std::set<std::string> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all.insert(line);
    return all;
}

struct Found {
    std::string text;
    std::set<Stamp> stamps;
    std::string told;
};

Found start(const std::string& folder) {
    SqliteLedger ledger({.folder = folder, .fsync = Fsync::never});
    StoredState state;
    state.read(ledger);
    const auto stamps = state.stamps();
    return {
        state.text(), {stamps.begin(), stamps.end()}, ledger.damage() ? ledger.damage()->what : ""};
}

/// Of what a start finds, the lines that were never stored.
std::vector<std::string> strange_lines(const Found& found, const std::set<std::string>& known) {
    std::vector<std::string> strange;
    std::istringstream others(found.text);
    for (std::string line; std::getline(others, line);)
        if (!known.contains(line) && !line.ends_with("is missing")) strange.push_back(line);
    return strange;
}

const Found& original() {
    static const Found found = [] {
        const TemporaryFolder folder;
        copy_store(snapshots().stopped, folder.path("data"));
        return start(folder.path("data"));
    }();
    return found;
}

/// Messages with a whole text in what a start looks at: the database, and the committed pages of
/// the log.
std::set<Stamp> readable(const std::string& folder) {
    std::string bytes = bytes_of(folder + "/pulsegate.db");
    const WalFile wal(folder + "/pulsegate.db-wal");
    std::array<char, page_bytes> page{};
    for (std::size_t i = 0; i < wal.frames().size(); ++i)
        if (wal.frames()[i].is_good && wal.read(i, page.data()))
            bytes.append(page.data(), page.size());
    std::set<Stamp> found;
    constexpr std::string_view begin = "<mine-";
    for (auto at = bytes.find(begin); at != std::string::npos; at = bytes.find(begin, at + 1)) {
        const Stamp stamp = std::strtoull(&bytes[at + begin.size()], nullptr, 10);
        const std::string payload = payload_of("mine", stamp);
        if (bytes.compare(at, payload.size(), payload) == 0) found.insert(stamp);
    }
    return found;
}

std::size_t missing_of(const std::set<Stamp>& wanted, const std::set<Stamp>& found) {
    return static_cast<std::size_t>(
        std::ranges::count_if(wanted, [&](Stamp stamp) { return !found.contains(stamp); }));
}

/// What happens to the files of a folder.
struct Way {
    std::string name;
    std::function<void(const std::string& folder)> damage;
    /// Readable messages that need not come back: those of pages that are hit, or of files that are
    /// not this store's.
    std::size_t tolerated = 0;
};

void change(const std::string& path, const std::function<void(std::string&)>& how) {
    std::string bytes = bytes_of(path);
    how(bytes);
    write_bytes(path, bytes);
}

std::size_t part_of(const std::string& bytes, std::size_t eighths) {
    return bytes.size() * eighths / 8;
}

void add_ways_of_a_file(std::vector<Way>& ways, const std::string& file) {
    const auto path = [file](const std::string& folder) { return folder + "/" + file; };
    const auto add = [&](const std::string& what, std::size_t tolerated,
                         std::function<void(std::string&)> how) {
        ways.push_back({file + ": " + what,
                        [=](const std::string& folder) { change(path(folder), how); }, tolerated});
    };
    ways.push_back({file + ": deleted",
                    [=](const std::string& folder) { fs::remove(path(folder)); },
                    messages_in_a_page});  // that nothing in the log leads to
    add("empty", messages_in_a_page, [](std::string& bytes) { bytes.clear(); });
    add("cut to 100 bytes", messages_in_a_page,
        [](std::string& bytes) { bytes.resize(std::min<std::size_t>(bytes.size(), 100)); });
    for (const std::size_t eighths : {2, 4, 6, 7})
        add(fmt::format("cut to {}/8", eighths), messages_in_a_page,
            [=](std::string& bytes) { bytes.resize(part_of(bytes, eighths)); });
    add("header zeroed", messages_in_a_page, [](std::string& bytes) {
        std::fill_n(bytes.begin(), std::min<std::size_t>(bytes.size(), 100), '\0');
    });
    for (const std::size_t eighths : {0, 1, 3, 5, 7}) {
        add(fmt::format("a bit flipped at {}/8", eighths), 2 * messages_in_a_page,
            [=](std::string& bytes) {
                if (!bytes.empty())
                    bytes[std::min(part_of(bytes, eighths) + 50, bytes.size() - 1)] ^= 4;
            });
    }
    for (const std::size_t eighths : {1, 4, 6})
        for (const char with : {'\0', '\x5a'})
            add(fmt::format("a page overwritten with {:x} at {}/8", static_cast<int>(with),
                            eighths),
                2 * messages_in_a_page, [=](std::string& bytes) {
                    const std::size_t begin = part_of(bytes, eighths) / page_bytes * page_bytes;
                    const std::size_t size = std::min(page_bytes, bytes.size() - begin);
                    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), size, with);
                });
    add("garbage", messages, [](std::string& bytes) { bytes.assign(10'000, 'z'); });
}

std::vector<Way> ways() {
    std::vector<Way> ways{{"nothing", [](const std::string&) {}}};
    for (const char* file : {"pulsegate.db", "pulsegate.db-wal", "pulsegate.db-mark", "lock"})
        add_ways_of_a_file(ways, file);
    const auto take = [](std::string what, std::string Snapshots::*from,
                         std::vector<std::string> files) {
        return Way{std::move(what),
                   [=](const std::string& folder) {
                       for (const std::string& file : files)
                           fs::copy_file(snapshots().*from + "/" + file, folder + "/" + file,
                                         fs::copy_options::overwrite_existing);
                   },
                   messages};
    };
    ways.push_back(take("the database of another store", &Snapshots::other, {"pulsegate.db"}));
    ways.push_back(take("the log of another store", &Snapshots::other, {"pulsegate.db-wal"}));
    ways.push_back(
        take("both of another store", &Snapshots::other, {"pulsegate.db", "pulsegate.db-wal"}));
    ways.push_back(take("an older copy of the database", &Snapshots::older, {"pulsegate.db"}));
    ways.push_back(
        take("an older copy of both", &Snapshots::older, {"pulsegate.db", "pulsegate.db-wal"}));
    ways.push_back(take("an older mark", &Snapshots::older, {"pulsegate.db-mark"}));
    return ways;
}

}  // namespace

/// A sample; all with PULSEGATE_LEDGER_CRASHES, as the ledger's other disasters.
int next_step(int step) {
    if (std::getenv("PULSEGATE_LEDGER_CRASHES")) return step + 1;
    return step + (sanitized ? 29 : step < 16 ? 1 : 7);
}

/// Kills the start of a copy of `folder` at each of its steps, three times running, and has it
/// start at last. All that an undisturbed start finds must be there, and be told.
void check_killed_starts(const std::string& folder) {
    const TemporaryFolder undisturbed;
    copy_store(folder, undisturbed.path("data"));
    const Found expected = start(undisturbed.path("data"));
    bool was_killed = true;
    int killed = 0;
    for (int step = 1; was_killed; step = next_step(step)) {
        CAPTURE(step);
        const TemporaryFolder killed_in;
        const std::string data = killed_in.path("data");
        copy_store(folder, data);
        const auto open = [&] { open_store(data, Fsync::always, nullptr); };
        was_killed = run_until_killed(step, open);
        for (int i = 0; i < 2; ++i) run_until_killed(step, open);
        killed += was_killed;
        const Found found = start(data);
        CHECK(found.text == expected.text);
        if (expected.told != "") CHECK(found.told != "");
        CHECK(start(data).text == expected.text);
        CHECK(!fs::exists(data + "/pulsegate.db.new"));
    }
    CHECK(killed > (sanitized ? 0 : 10));
}

/// While it lives, this process can't write beyond the first bytes of a file: there is no room.
class SmallFiles {
public:
    explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    ~SmallFiles() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    SmallFiles(const SmallFiles&) = delete;
    SmallFiles& operator=(const SmallFiles&) = delete;

private:
    rlimit before_{};
    void (*handler_)(int);
};

void overwrite_page(const std::string& path, std::string_view that_has) {
    change(path, [&](std::string& bytes) {
        const auto at = bytes.find(that_has);
        REQUIRE(at != std::string::npos);
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at / page_bytes * page_bytes),
                    page_bytes, '\x5a');
    });
}

TEST_CASE("after any damage to a store's files, losses are reported, and the rest comes back") {
    const QuietLog quiet;
    const std::set<std::string> known = lines_of(original().text);
    std::size_t tried = 0;
    std::size_t number = 0;
    for (const bool was_killed : {true, false}) {
        for (const Way& way : ways()) {
            if (sanitized && ++number % 4 != 0) continue;  // all of them take a minute
            const std::string name =
                fmt::format("{} ({})", way.name, was_killed ? "killed" : "stopped");
            CAPTURE(name);
            const TemporaryFolder folder;
            const std::string data = folder.path("data");
            copy_store(was_killed ? snapshots().killed : snapshots().stopped, data);
            way.damage(data);
            const auto expected = readable(data);
            // Damage that only reading all finds, after a stop in order, has the next start look
            // closer.
            std::optional<Found> found;
            const std::string refused = complaint([&] { found = start(data); });
            if (refused.find("the next start checks") != std::string::npos)
                found = start(data);
            else
                CHECK(refused == "");
            if (!found) continue;
            ++tried;
            const bool is_other = way.name.find("of another store") != std::string::npos &&
                                  way.name.find("log") == std::string::npos;
            if (!is_other) CHECK(strange_lines(*found, known) == std::vector<std::string>());
            const bool is_whole = found->text == original().text;
            if (!is_whole) CHECK(found->told != "");
            if (way.name == "nothing") CHECK(found->told == "");
            if (way.name == "nothing") CHECK(is_whole);
            const std::size_t missing = missing_of(expected, found->stamps);
            if (missing > way.tolerated) CHECK(missing == way.tolerated);
            CHECK(start(data).text == found->text);
        }
    }
    CHECK(tried >= (sanitized ? 25 : 100));
}

TEST_CASE(
    "a start that is killed at any moment, three times running, is finished by the next one") {
    const QuietLog quiet;
    const TemporaryFolder folder;
    const std::string data = folder.path("data");
    const std::string database = data + "/pulsegate.db";
    copy_store(snapshots().small, data);
    SUBCASE("nothing is damaged") {}
    SUBCASE("there is nothing yet") {
        fs::remove_all(data);
        fs::create_directory(data);
    }
    SUBCASE("a page is damaged") { overwrite_page(database, payload_of("mine", 20)); }
    SUBCASE("the header is lost") {
        change(database, [](std::string& bytes) { std::fill_n(bytes.begin(), 100, '\0'); });
    }
    SUBCASE("the database is lost, and the log is there") { fs::remove(database); }
    SUBCASE("a bit of the log is wrong") {
        change(database + "-wal", [](std::string& bytes) { bytes[bytes.size() / 3] ^= 1; });
    }
    SUBCASE("a page of the log is lost") {
        change(database + "-wal", [](std::string& bytes) {
            std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 3), 3000, 'x');
        });
    }
    SUBCASE("the log is another store's") {
        fs::copy_file(snapshots().other + "/pulsegate.db-wal", database + "-wal",
                      fs::copy_options::overwrite_existing);
    }
    SUBCASE("the log is lost") { fs::remove(database + "-wal"); }
    check_killed_starts(data);
}

namespace {

/// A folder with the database of an older program.
void write_older_store(const std::string& folder, int version) {
    fs::create_directory(folder);
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open((folder + "/pulsegate.db").c_str(), &database) == SQLITE_OK);
    const auto dump =
        bytes_of(fmt::format("{}/tests/data/store-{}.sql", PULSEGATE_SOURCE_DIR, version));
    CHECK(sqlite3_exec(database, dump.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
}

int version_of(const std::string& path) {
    Database database(path);
    database.run("PRAGMA locking_mode = EXCLUSIVE");
    int version = 0;
    Statement(database, "PRAGMA user_version").each([&](const Row& row) {
        version = row.as<int>(0);
    });
    return version;
}

std::size_t files_like(const std::string& folder, std::string_view begin) {
    const fs::directory_iterator files(folder);
    return static_cast<std::size_t>(std::count_if(
        fs::begin(files), fs::end(files),
        [&](const auto& file) { return file.path().filename().string().starts_with(begin); }));
}

}  // namespace

TEST_CASE("a migration that is killed at any moment is finished by the next start, with one copy") {
    const QuietLog quiet;
    const TemporaryFolder folder;
    const std::string data = folder.path("data");
    write_older_store(data, 8);
    check_killed_starts(data);
    start(data);
    CHECK(version_of(data + "/pulsegate.db") == newest_schema());
    CHECK(version_of(data + "/pulsegate.db.v8") == 8);
    // The way back, and forth again.
    fs::copy_file(data + "/pulsegate.db.v8", data + "/pulsegate.db",
                  fs::copy_options::overwrite_existing);
    fs::remove(data + "/pulsegate.db-wal");
    fs::remove(data + "/pulsegate.db-mark");
    start(data);
    CHECK(version_of(data + "/pulsegate.db") == newest_schema());
    CHECK(files_like(data, "pulsegate.db.v8") == 1);
    write_older_store(folder.path("other"), 8);
    fs::copy_file(folder.path("other") + "/pulsegate.db", data + "/pulsegate.db",
                  fs::copy_options::overwrite_existing);
    fs::remove(data + "/pulsegate.db-wal");
    fs::remove(data + "/pulsegate.db-mark");
    {
        Database changed(data + "/pulsegate.db");
        changed.run("UPDATE meta SET value = value + 1 WHERE key = 'floor'");
    }
    start(data);
    CHECK(files_like(data, "pulsegate.db.v8") == 2);
}

TEST_CASE("without room for what can be read, a start says so and changes nothing") {
    const QuietLog quiet;
    const TemporaryFolder folder;
    const std::string data = folder.path("data");
    copy_store(snapshots().killed, data);
    overwrite_page(data + "/pulsegate.db", payload_of("mine", 20));
    const TemporaryFolder undisturbed;
    copy_store(data, undisturbed.path("data"));
    const Found expected = start(undisturbed.path("data"));
    const auto before = bytes_of(data + "/pulsegate.db");
    const auto log_before = bytes_of(data + "/pulsegate.db-wal");
    for (int i = 0; i < 3; ++i) {
        const std::string why = complaint([&] {
            const SmallFiles limit(100'000);
            open_store(data, Fsync::always, nullptr);
        });
        CAPTURE(why);
        CHECK(why.find("make room for up to") != std::string::npos);
        CHECK(why.find('\n') == std::string::npos);
        CHECK(bytes_of(data + "/pulsegate.db") == before);
        CHECK(bytes_of(data + "/pulsegate.db-wal") == log_before);
        CHECK(!fs::exists(data + "/pulsegate.db.new"));
    }
    const Found found = start(data);
    CHECK(found.text == expected.text);
    CHECK(found.told != "");
}
