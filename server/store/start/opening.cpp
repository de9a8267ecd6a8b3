#include "server/store/start/opening.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "server/store/database/schema.h"
#include "server/store/files/store_folder.h"
#include "server/store/rows/body.h"
#include "server/store/rows/row_codec.h"
#include "server/store/start/recovery.h"
#include "server/store/start/schema_copy.h"

namespace pulsegate {

namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
    throw std::runtime_error(fmt::format(
        "can't use {}: {}; --data names the folder, --data none keeps nothing", path, why));
}

void throw_if_failed(const Database& database, const std::string& path) {
    const bool is_full = (database.error() & 0xff) == SQLITE_FULL;
    if (is_full) refuse(path, "the disk is full: make room there and start again; nothing is lost");
    if (!database.ok()) refuse(path, database.error_text());
}

std::int64_t number(Database& database, const char* query) {
    std::int64_t found = 0;
    Statement(database, query).each([&](const Row& row) { found = row.number(0); });
    return found;
}

constexpr const char* in_memory_path = ":memory:";

const char* synchronous(Fsync fsync) {
    switch (fsync) {
        case Fsync::always: return "PRAGMA synchronous = FULL";
        case Fsync::each_second: return "PRAGMA synchronous = NORMAL";
        case Fsync::never: break;
    }
    return "PRAGMA synchronous = OFF";
}

void configure(Database& database, bool in_memory) {
    // Exclusive locking must come first. Then there is no shared memory and no second connection.
    database.run("PRAGMA locking_mode = EXCLUSIVE");
    // A database in memory frees unused pages at once. An existing file is not written to before it
    // was checked.
    if (number(database, "PRAGMA page_count") == 0)
        database.run(in_memory ? "PRAGMA auto_vacuum = FULL"
                               : "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL");
    database.run("PRAGMA journal_mode = WAL");
    database.run("PRAGMA cache_spill = 0; PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY");
}

/// The version of the tables, 0 in an empty database.
int schema_version(Database& database, const std::string& path) {
    const auto application = number(database, "PRAGMA application_id");
    const auto version = static_cast<int>(number(database, "PRAGMA user_version"));
    const auto objects = number(database, "SELECT count(*) FROM sqlite_schema");
    if (!database.ok()) return 0;
    if (application == 0 && version == 0 && objects == 0) return 0;
    if (application != application_id) refuse(path, "it is not a database of Pulsegate");
    if (version > newest_schema())
        refuse(path, fmt::format("it has format {}, and this Pulsegate knows formats up to {}; "
                                 "start the newer one",
                                 version, newest_schema()));
    return version;
}

std::string damage_mark(const std::string& path) { return path + "-damaged"; }

/// Reads all pages unless the last process has closed the database in order.
void check(Database& database, const std::string& path, bool was_closed) {
    if (std::ifstream mark(damage_mark(path)); mark) {
        std::string why;
        std::getline(mark, why);
        return database.fail(SQLITE_CORRUPT, "the last process found the data damaged: " + why);
    }
    if (was_closed || number(database, "SELECT value FROM meta WHERE key = 'clean'") == 1) return;
    std::string found;
    Statement(database, "PRAGMA quick_check(1)").each([&](const Row& row) { found = row.text(0); });
    if (database.ok() && found != "ok") database.fail(SQLITE_CORRUPT, std::move(found));
}

/// Copies a database without page checksums to a file with room for them in each page. The new one
/// takes the place of the old one at once, or not at all.
void add_checksums(std::unique_ptr<Database>& database, const StoreFolder& folder) {
    database->checkpoint(SQLITE_CHECKPOINT_TRUNCATE);  // the WAL would be taken for the new one's
    database->reserve_checksums();
    Statement(*database, "VACUUM INTO ?").run(folder.unfinished());
    if (!database->ok()) return;
    database.reset();
    folder.give_name(folder.database());
    database = std::make_unique<Database>(folder.database());
    configure(*database, false);
}

/// Opens the database with its tables. If it is damaged, the returned database has an error.
/// `folder` is null if the database is in memory or on another VFS.
std::unique_ptr<Database> open_database(const std::string& path, const char* vfs,
                                        const StoreFolder* folder, bool was_closed = false) {
    auto database = std::make_unique<Database>(path, vfs);
    const bool in_memory = path == in_memory_path;
    configure(*database, in_memory);
    const int version = schema_version(*database, path);
    if (database->ok() && version > 0) check(*database, path, was_closed);
    const bool lacks_checksums = !in_memory && version > 0 && !database->has_checksums();
    if (lacks_checksums && version >= first_with_checksums)
        database->fail(SQLITE_CORRUPT, "its pages should have checksums");
    const bool is_old = version > 0 && version < newest_schema();
    if (database->ok() && is_old && folder) keep_old_version(*database, version, *folder);
    if (database->ok() && lacks_checksums && folder) add_checksums(database, *folder);
    migrate(*database, version);
    return database;
}

/// Reports all faults of the files, and repairs them as far as possible.
std::unique_ptr<Database> open_files(const StoreFolder& folder, bool was_closed) {
    Recovery recovery(folder);
    recovery.run();
    auto database = open_database(folder.database(), nullptr, &folder, was_closed);
    // The numbers of lost events are used again. So the log gets a new identity, and readers with
    // an old cursor are told.
    if (recovery.lost_commits()) database->run("DELETE FROM meta WHERE key = 'event_log'");
    if (!database->damaged()) return database;
    const std::string why = database->error_text();
    database.reset();
    recovery.salvage(why);
    std::error_code none;
    std::filesystem::remove(damage_mark(folder.database()), none);
    return open_database(folder.database(), nullptr, &folder);
}

/// Returns the store's key, and creates it if there is none.
HashKey stored_key(Database& database) {
    const HashKey drawn = random_key();
    Statement(database, "INSERT OR IGNORE INTO meta VALUES('key_low', ?), ('key_high', ?)")
        .run(drawn.low, drawn.high);
    const auto half = [&](const char* query) {
        return static_cast<std::uint64_t>(number(database, query));
    };
    return {half("SELECT value FROM meta WHERE key = 'key_low'"),
            half("SELECT value FROM meta WHERE key = 'key_high'")};
}

/// The id that all files of this store share.
std::uint64_t stored_id(Database& database) {
    Statement(database, "INSERT OR IGNORE INTO meta VALUES('store', ?)").run(random_key().low >> 1);
    return static_cast<std::uint64_t>(
        number(database, "SELECT value FROM meta WHERE key = 'store'"));
}

/// Rows of users are stored lazily, so others may have been told of later versions before a crash.
/// These versions were not above the floor. A copy may lack the latest floor; then they were not
/// above the clock.
std::uint64_t version_floor(Database& database, Stamp floor) {
    const auto last = static_cast<std::uint64_t>(
        number(database, "SELECT value FROM meta WHERE key = 'version_floor'"));
    if (number(database, "SELECT value FROM meta WHERE key = 'clean'") == 1) return last;
    return std::max({last, time_of(floor), static_cast<std::uint64_t>(wall_now())});
}

/// The last process may have told others of events that a power cut or a failover has lost. Their
/// numbers are not used again.
void skip_event_numbers(Database& database) {
    if (number(database, "SELECT value FROM meta WHERE key = 'clean'") == 1) return;
    database.run(
        "INSERT OR REPLACE INTO meta SELECT 'event_floor', 1000000 + max("
        "ifnull((SELECT max(number) FROM event), 0), "
        "ifnull((SELECT value FROM meta WHERE key = 'event_floor'), 0))"
        " WHERE EXISTS (SELECT 1 FROM meta WHERE key = 'event_log')");
}

/// Can this process lose committed events, or could the last one? With `fsync = always`, events
/// have consecutive numbers.
bool may_lose_events(Database& database, Fsync fsync) {
    const bool may_lose = fsync != Fsync::always;
    const bool could_lose =
        number(database, "SELECT value FROM meta WHERE key = 'loses_events'") == 1;
    Statement(database, "INSERT OR REPLACE INTO meta VALUES('loses_events', ?)")
        .run(may_lose ? 1 : 0);
    return may_lose || could_lose;
}

/// Warns if the clock was once far ahead, because the floor never goes back.
void say_if_ahead(Stamp floor) {
    constexpr WallMillis a_day = 86'400'000;
    const auto highest = static_cast<WallMillis>(time_of(floor));
    if (highest > wall_now() + a_day)
        spdlog::warn(
            "the clock was ahead before, at {}: new messages and presence changes are numbered "
            "from that time on, so that they stay in order",
            rfc3339(highest));
}

/// A program that does not know early stamps of cursors raises the floor, but not its copy
/// `cursor_floor`. If the two differ, early stamps are dropped. Then messages that this program has
/// stored late count as waiting, not as done.
void drop_early_stamps_of_cursors(Database& database) {
    std::vector<std::pair<std::int64_t, std::string>> changed;
    Statement(database, "SELECT owner, beyond FROM cursor").each([&](const Row& row) {
        std::string later = drop_early_stamps(row.view(1));
        if (later != row.view(1)) changed.emplace_back(row.number(0), std::move(later));
    });
    database.run("BEGIN");
    Statement update(database, "UPDATE cursor SET beyond = ? WHERE owner = ?");
    for (const auto& [owner, later] : changed) update.run(blob(later), owner);
    database.run("COMMIT");
}

/// Reads the values that the last process has left in `meta`, and notes there that this process
/// runs.
void begin_meta(OpenStore& store) {
    Database& database = *store.database;
    store.floor =
        static_cast<Stamp>(number(database, "SELECT value FROM meta WHERE key = 'floor'"));
    say_if_ahead(store.floor);
    store.new_floor = std::max(store.floor, stamp_at(wall_now())) + floor_ahead;
    const auto cursor_floor =
        static_cast<Stamp>(number(database, "SELECT value FROM meta WHERE key = 'cursor_floor'"));
    if (store.floor != cursor_floor) drop_early_stamps_of_cursors(database);
    store.version_floor = version_floor(database, store.floor);
    Statement(database,
              "INSERT OR REPLACE INTO meta VALUES"
              "('clean', 0), ('floor', ?1), ('cursor_floor', ?1), ('version_floor', ?2)")
        .run(store.new_floor, store.version_floor);
    store.key = stored_key(database);
}

}  // namespace

OpenStore open_store(const std::string& folder, Fsync fsync, const char* vfs, bool was_closed) {
    const bool in_memory = folder.empty();
    const std::string path = in_memory ? in_memory_path : folder + "/pulsegate.db";
    std::optional<StoreFolder> files;
    if (!in_memory && !vfs) files.emplace(folder);
    OpenStore store{.database = files ? open_files(*files, was_closed)
                                      : open_database(path, vfs, nullptr, was_closed)};
    Database& database = *store.database;
    if (may_lose_events(database, fsync) && !was_closed) skip_event_numbers(database);
    begin_meta(store);
    const std::uint64_t id = stored_id(database);
    const auto wal = number(database, "SELECT value FROM meta WHERE key = 'wal'");
    throw_if_failed(database, path);
    store.mark = StoreMark(files ? files->mark() : "", id, static_cast<std::uint64_t>(wal));
    // A process that was killed may have left frames of the WAL in the page cache only. This writes
    // them to the database file and syncs it, before anybody is told of their data.
    database.checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
    database.run(synchronous(fsync));
    throw_if_failed(database, path);
    if (files) files->sync();
    if (files) store.damage = files->damage();
    return store;
}

OpenStore open_mirrored(Mirror& mirror, std::chrono::milliseconds patience) {
    OpenStore store{.database = open_database(in_memory_path, nullptr, nullptr)};
    mirror.begin(*store.database);
    skip_event_numbers(*store.database);
    begin_meta(store);
    store.mark = StoreMark("", stored_id(*store.database), 0);
    mirror.write_at_start(patience);
    return store;
}

void mark_damaged(const std::string& folder, const std::string& why) {
    if (folder.empty()) return;
    std::ofstream(damage_mark(folder + "/pulsegate.db")) << why << std::endl;
}

void enlarge_cache(Database& database, std::size_t bytes) {
    database.run(("PRAGMA cache_size = -" + std::to_string(bytes / 1024)).c_str());
}

}  // namespace pulsegate
