#include "server/store/files/store_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/base/text/date.h"

namespace pulsegate {

namespace {

namespace fs = std::filesystem;

/// A complete database with all readable data, before it replaces the damaged one. The time follows
/// in its name, and will be in the damaged file's name, too.
constexpr std::string_view made_whole = ".salvaged-";
constexpr std::string_view aside = ".bad-";

bool exists(const std::string& path) {
    std::error_code error;
    return fs::exists(fs::symlink_status(path, error));
}

}  // namespace

void StoreFolder::refuse(std::string_view why) const {
    throw std::runtime_error(fmt::format(
        "can't use {}: {}; --data names the folder, --data none keeps nothing", database(), why));
}

void StoreFolder::rename(const std::string& from, const std::string& to) const {
    if (std::rename(from.c_str(), to.c_str()) != 0)
        refuse(fmt::format("{} can't be renamed to {}: {}", from, to, std::strerror(errno)));
}

void StoreFolder::remove(const std::string& path) const {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
        refuse(fmt::format("{} can't be deleted: {}", path, std::strerror(errno)));
}

void StoreFolder::sync(const std::string& path) const {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fsync(file.get()) != 0)
        refuse(fmt::format("{} can't be synced: {}", path, std::strerror(errno)));
}

void StoreFolder::sync() const { sync(folder_); }

void StoreFolder::copy(const std::string& from, const std::string& to) const {
    std::error_code error;
    fs::copy_file(from, to, error);
    if (error) {
        remove(to);
        refuse(fmt::format("{} can't be copied to {}: {}", from, to, error.message()));
    }
    sync(to);
}

/// Returns a free name: pulsegate.db.`kind`TIME.
std::string StoreFolder::new_name(std::string_view kind) const {
    std::string time = rfc3339(wall_now());
    std::erase(time, ':');
    const std::string name = fmt::format("{}{}{}", database(), kind, time);
    std::string free = name;
    for (int i = 2; exists(free) || exists(free + "-wal"); ++i)
        free = fmt::format("{}-{}", name, i);
    return free;
}

void StoreFolder::clean_up() const {
    for (const char* rest : {"", "-wal", "-journal"}) remove(unfinished() + rest);
    const std::string prefix = fs::path(database()).filename().string() + std::string(made_whole);
    std::vector<std::string> made;
    for (const auto& entry : fs::directory_iterator(folder_))
        if (entry.path().filename().string().starts_with(prefix)) made.push_back(entry.path());
    for (const std::string& each : made) finish_replacing(each);
}

std::string StoreFolder::replace_database() const {
    sync(unfinished());
    std::string name = new_name(aside);
    const std::string time = name.substr(database().size() + aside.size());
    const std::string made = fmt::format("{}{}{}", database(), made_whole, time);
    rename(unfinished(), made);
    sync();
    finish_replacing(made);
    return name;
}

/// The new database is complete. Moves the old one aside and gives its name to the new one.
void StoreFolder::finish_replacing(const std::string& made) const {
    const std::string time = made.substr(database().size() + made_whole.size());
    const std::string old = fmt::format("{}{}{}", database(), aside, time);
    if (exists(wal())) rename(wal(), old + "-wal");
    if (exists(database())) rename(database(), old);
    sync();
    rename(made, database());
    sync();
    spdlog::error("all readable data is now in {}; the damaged database is {}", database(), old);
}

void StoreFolder::replace_wal() const {
    const std::string kept = new_name(aside) + "-wal";
    copy(wal(), kept);
    sync();
    rename(unfinished(), wal());
    sync();
    spdlog::error("{} was rewritten; a copy of the damaged file is {}", wal(), kept);
}

std::string StoreFolder::set_wal_aside() const {
    std::string kept = new_name(aside) + "-wal";
    rename(wal(), kept);
    sync();
    spdlog::error("{} was renamed to {}", wal(), kept);
    return kept;
}

void StoreFolder::give_name(const std::string& path) const {
    sync(unfinished());
    rename(unfinished(), path);
    sync();
}

void StoreFolder::note_damage(std::string_view what) const {
    spdlog::error("{}", what);
    const UniqueFd file(::open(damage_file().c_str(),
                               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640));
    const std::string line = fmt::format("{} {}\n", rfc3339(wall_now()), what);
    if (!file ||
        ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
        ::fsync(file.get()) != 0)
        refuse(fmt::format("{}, and {} can't be written: {}; make room in the folder", what,
                           damage_file(), std::strerror(errno)));
    sync();
}

std::optional<StoreDamage> StoreFolder::damage() const {
    std::ifstream file(damage_file());
    std::string last;
    for (std::string line; std::getline(file, line);)
        if (!line.empty()) last = line;
    if (last.empty()) return std::nullopt;
    const auto space = last.find(' ');
    const auto time = parse_rfc3339(std::string_view(last).substr(0, space));
    return StoreDamage{time.value_or(0), space == last.npos ? "" : last.substr(space + 1)};
}

}  // namespace pulsegate
