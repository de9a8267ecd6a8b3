#pragma once

#include <cstdint>
#include <string>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// The file that a backup is written to: FILE.part until it is complete, then FILE. An incomplete
/// file is deleted. Its methods return the error, or nothing.
class BackupFile {
public:
    explicit BackupFile(const std::string& file) : file_(file), part_(file + ".part") {}
    ~BackupFile();
    BackupFile(const BackupFile&) = delete;
    BackupFile& operator=(const BackupFile&) = delete;

    const std::string& part() const { return part_; }

    /// Is it one of our databases, or empty, or missing? Other files must not be deleted.
    static bool may_be_replaced(const std::string& path);

    /// Creates an empty file, and replaces one that a crash has left.
    std::string create();

    /// After this, all written data is on disk.
    std::string sync();

    /// Renames it to its final name, and replaces an older file.
    std::string publish();

    std::uint64_t bytes() const;

private:
    void remove();

    const std::string file_;
    const std::string part_;
    UniqueFd fd_;
};

}  // namespace pulsegate
