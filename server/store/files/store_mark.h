#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// The progress of a store. Its write-ahead logs are numbered. `frames` is the number of committed
/// frames of this log, or 0 if the log was copied into the database.
struct StorePoint {
    std::uint64_t wal = 0;
    std::uint64_t frames = 0;

    auto operator<=>(const StorePoint&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// The file pulsegate.db-mark: the id of the store, and the progress of its database. It is written
/// after each commit and never synced. So it may be behind the other files, but never ahead of
/// them. If they are behind it, committed data is lost.
class StoreMark {
public:
    StoreMark() = default;
    /// `wal` is the last log that was begun. With an empty `path`, there is no such file.
    StoreMark(const std::string& path, std::uint64_t store, std::uint64_t wal);

    /// The number of the log that the next commit is written to.
    std::uint64_t next_wal() const { return at_.wal + (is_begun_ ? 0 : 1); }

    /// After a commit.
    void committed(std::size_t frames);
    /// Call it before the log gets shorter.
    void expect_nothing();
    /// Call it when the log was copied into the database: the next commit begins a new log.
    void restarted();

private:
    void write() const;

    UniqueFd file_;
    std::uint64_t store_ = 0;
    StorePoint at_;
    bool is_begun_ = false;
};

struct MarkedPoint {
    std::uint64_t store = 0;
    StorePoint at;
};

/// The mark that the last process has written; nothing if there is no such file.
std::optional<MarkedPoint> read_store_mark(const std::string& path);

}  // namespace pulsegate
