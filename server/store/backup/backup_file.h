#pragma once

#include <cstdint>
#include <string>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// The file that a backup is written to: FILE.part until it is complete, then FILE. What is not
/// complete is deleted. Its methods return what is wrong, or nothing.
class BackupFile {
public:
    explicit BackupFile(const std::string& file) : file_(file), part_(file + ".part") {}
    ~BackupFile();
    BackupFile(const BackupFile&) = delete;
    BackupFile& operator=(const BackupFile&) = delete;

    const std::string& part() const { return part_; }

    /// Is it a database of ours, empty, or not there? Others are not ours to delete.
    static bool may_be_replaced(const std::string& path);

    /// Makes an empty file, in the place of one that a crash has left.
    std::string create();

    /// All that was written is on disk then.
    std::string sync();

    /// Gives it its name, in the place of an older file.
    std::string publish();

    std::uint64_t bytes() const;

private:
    void remove();

    const std::string file_;
    const std::string part_;
    UniqueFd fd_;
};

}  // namespace pulsegate
