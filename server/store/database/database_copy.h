#pragma once

#include <cstdint>
#include <string>

#include "server/store/database/database.h"

namespace pulsegate {

/// Copies a database a few pages at a time, on the thread of the connection that writes to it and
/// between its transactions. What that connection commits meanwhile goes to the copy too, so the
/// copy is the database as it was when the last page was copied.
class DatabaseCopy {
public:
    /// `path` is an empty file.
    DatabaseCopy(Database& source, const std::string& path);
    ~DatabaseCopy();
    DatabaseCopy(const DatabaseCopy&) = delete;
    DatabaseCopy& operator=(const DatabaseCopy&) = delete;

    /// Copies for about a millisecond. False: the copy is complete, or `error` says why not.
    bool step();

    const std::string& error() const { return destination_.error_text(); }

    /// Copied so far. A commit of the source that fails begins the copy anew.
    std::uint64_t bytes() const;

private:
    Database destination_;
    sqlite3_backup* backup_ = nullptr;
};

}  // namespace pulsegate
