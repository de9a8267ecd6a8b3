#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace pulsegate {

/// The bytes of a file, and its mode.
struct WholeFile {
    std::string text{};
    mode_t mode = 0;
};

/// Reads a file or a pipe. Throws std::runtime_error that names the file and the fault.
[[nodiscard]] WholeFile read_whole_file(const std::string& path);
/// The same for the file of a setting, which the exception names too.
[[nodiscard]] WholeFile read_whole_file(std::string_view setting, const std::string& path);

}  // namespace pulsegate
