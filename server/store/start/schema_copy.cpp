#include "server/store/start/schema_copy.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "server/store/database/schema.h"

namespace pulsegate {

namespace {

std::int64_t number_in(Database& database, const char* query) {
    std::int64_t found = -1;
    Statement(database, query).each([&](const Row& row) { found = row.number(0); });
    return found;
}

/// A number that each start changes.
constexpr const char* last_start = "SELECT value FROM meta WHERE key = 'floor'";

/// Did an interrupted migration of this database make this copy?
bool is_copy_of(Database& database, const std::string& path) {
    if (!std::filesystem::exists(path)) return false;
    Database copy(path);
    return number_in(copy, last_start) == number_in(database, last_start) && copy.ok();
}

void require_room(Database& database, const std::string& path, const StoreFolder& folder) {
    const auto needed =
        static_cast<std::uintmax_t>(number_in(database,
                                              "SELECT (SELECT page_count FROM pragma_page_count)"
                                              " * (SELECT page_size FROM pragma_page_size)"));
    std::error_code error;
    const auto space = std::filesystem::space(std::filesystem::path(path).parent_path(), error);
    if (error || space.available >= needed) return;
    folder.refuse(
        fmt::format("no room to keep a copy of it before it gets a new format: make room "
                    "for {} MB there, and start again; nothing was changed",
                    needed / 1'000'000 + 1));
}

/// Copies the database to one file that the older program can open. `VACUUM INTO` would leave room
/// for checksums, which that program does not write.
std::string copy_whole(Database& database, const StoreFolder& folder) {
    database.checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
    if (!database.ok()) return database.error_text();
    std::error_code error;
    std::filesystem::copy_file(folder.database(), folder.unfinished(), error);
    if (error) return error.message();
    Database copy(folder.unfinished());
    copy.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE");
    return copy.error_text();
}

}  // namespace

void keep_old_version(Database& database, int version, const StoreFolder& folder) {
    std::string path = fmt::format("{}.v{}", folder.database(), version);
    for (int i = 2; std::filesystem::exists(path) && !is_copy_of(database, path); ++i)
        path = fmt::format("{}.v{}-{}", folder.database(), version, i);
    if (!std::filesystem::exists(path)) {
        require_room(database, path, folder);
        const std::string error = copy_whole(database, folder);
        if (!error.empty()) {
            folder.clean_up();
            folder.refuse(
                fmt::format("a copy of it can't be made: {}; nothing was changed", error));
        }
        folder.give_name(path);
    }
    spdlog::warn("{} is converted to format {} from {}; {} is a copy in the old format",
                 folder.database(), newest_schema(), version, path);
}

}  // namespace pulsegate
