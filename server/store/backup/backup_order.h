#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace pulsegate {

struct BackupOrder {
    std::string file;        ///< an absolute path
    bool overwrite = false;  ///< even if there is a file already
};

struct BackupResult {
    enum class Status : std::uint8_t {
        written,
        bad_file,  ///< a backup can't be written to this path
        exists,    ///< the file exists, and must not be overwritten
        busy,      ///< another backup is under way
        failed,
    };
    Status status = Status::written;
    std::string error{};  ///< one line, unless it was written
    std::uint64_t bytes = 0;
    std::chrono::milliseconds took{};
};

using BackupAnswer = std::function<void(const BackupResult&)>;

}  // namespace pulsegate
