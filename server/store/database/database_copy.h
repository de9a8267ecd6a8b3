#pragma once

#include <cstdint>
#include <string>

#include "server/store/database/database.h"

namespace pulsegate {

/// Copies a database a few pages at a time, on the thread of the connection that writes to it and
/// between its transactions. Meanwhile, the connection's commits go to the copy too. So the copy
/// has the state of the database at the time when the last page was copied.
class DatabaseCopy {
public:
    /// `path` is an empty file.
    DatabaseCopy(Database& source, const std::string& path);
    ~DatabaseCopy();
    DatabaseCopy(const DatabaseCopy&) = delete;
    DatabaseCopy& operator=(const DatabaseCopy&) = delete;

    /// Copies for about a millisecond. Returns false if the copy is complete, or has failed; then
    /// `error` has the reason.
    bool step();

    const std::string& error() const { return destination_.error_text(); }

    /// The number of bytes copied so far. If a commit of the source fails, the copy starts again
    /// from the beginning.
    std::uint64_t bytes() const;

private:
    Database destination_;
    sqlite3_backup* backup_ = nullptr;
};

}  // namespace pulsegate
