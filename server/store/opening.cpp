#include "server/store/opening.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "server/base/unique_fd.h"
#include "server/store/salvage.h"
#include "server/store/schema.h"

namespace pulsegate {

namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
    throw std::runtime_error(fmt::format(
        "can't use {}: {}; --data names the folder, --data none keeps nothing", path, why));
}

void throw_if_failed(const Database& database, const std::string& path) {
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
    // Exclusive locking comes first: so there is no shared memory, and no second connection.
    database.run("PRAGMA locking_mode = EXCLUSIVE");
    // What is in memory gives back at once what it does not need any more.
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
void check(Database& database, const std::string& path) {
    if (std::ifstream mark(damage_mark(path)); mark) {
        std::string why;
        std::getline(mark, why);
        spdlog::error("the last process found the data damaged: {}", why);
        return database.note(SQLITE_CORRUPT);
    }
    if (number(database, "SELECT value FROM meta WHERE key = 'clean'") == 1) return;
    std::string found;
    Statement(database, "PRAGMA quick_check(1)").each([&](const Row& row) { found = row.text(0); });
    if (database.ok() && found != "ok") {
        spdlog::error("the database is damaged: {}", found);
        database.note(SQLITE_CORRUPT);
    }
}

/// A file or a folder.
void sync(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fsync(file.get()) != 0) refuse(path, "it can't be synced");
}

/// Makes another file of a database whose pages have no checksums, with all that is in it: they
/// need room in each page. The new one takes the place of the old one at once, or not at all.
void add_checksums(std::unique_ptr<Database>& database, const std::string& path) {
    const std::string made = path + ".sealed";
    std::filesystem::remove(made);
    database->checkpoint(SQLITE_CHECKPOINT_TRUNCATE);  // the WAL would be taken for the new one's
    database->reserve_checksums();
    Statement(*database, "VACUUM INTO ?").run(made);
    if (!database->ok()) return;
    sync(made);
    database.reset();
    std::filesystem::rename(made, path);
    database = std::make_unique<Database>(path);
    configure(*database, false);
}

/// The database with its tables; its error may be that it is damaged.
std::unique_ptr<Database> open_database(const std::string& path, const char* vfs) {
    auto database = std::make_unique<Database>(path, vfs);
    const bool in_memory = path == in_memory_path;
    configure(*database, in_memory);
    const int version = schema_version(*database, path);
    if (database->ok() && version > 0) check(*database, path);
    const bool lacks_checksums = !in_memory && version > 0 && !database->has_checksums();
    if (lacks_checksums && version >= first_with_checksums)
        database->fail(SQLITE_CORRUPT, "its pages should have checksums");
    if (database->ok() && lacks_checksums && !vfs) add_checksums(database, path);
    migrate(*database, version);
    return database;
}

/// Draws it if there is none.
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

}  // namespace

OpenStore open_store(const std::string& folder, Fsync fsync, const char* vfs) {
    const bool in_memory = folder.empty();
    const std::string path = in_memory ? in_memory_path : folder + "/pulsegate.db";
    OpenStore store{.database = open_database(path, vfs)};
    if (store.database->damaged()) {
        store.database.reset();
        const std::string damaged = set_aside(path);
        store.database = open_database(path, vfs);
        throw_if_failed(*store.database, path);
        salvage(damaged, *store.database, vfs);
        throw_if_failed(*store.database, path);
        std::filesystem::remove(damage_mark(path));
    }
    Database& database = *store.database;
    store.floor =
        static_cast<Stamp>(number(database, "SELECT value FROM meta WHERE key = 'floor'"));
    store.new_floor = std::max(store.floor, stamp_at(wall_now())) + floor_ahead;
    Statement(database, "INSERT OR REPLACE INTO meta VALUES('clean', 0), ('floor', ?)")
        .run(store.new_floor);
    store.key = stored_key(database);
    // A process that was killed may have left frames of the WAL in the page cache only. Now they
    // are in the file and synced, before anybody is told of what is in them.
    database.checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
    database.run(synchronous(fsync));
    throw_if_failed(database, path);
    if (!vfs && !in_memory) sync(folder);
    return store;
}

void mark_damaged(const std::string& folder, const std::string& why) {
    if (folder.empty()) return;
    std::ofstream(damage_mark(folder + "/pulsegate.db")) << why << std::endl;
}

void enlarge_cache(Database& database) { database.run("PRAGMA cache_size = -65536"); }

}  // namespace pulsegate
