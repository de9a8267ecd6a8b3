#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace pulsegate {

/// A file as it was read, byte by byte, and its mode.
struct WholeFile {
    std::string text{};
    mode_t mode = 0;
};

/// Reads a file, or what somebody writes to a pipe. Throws std::runtime_error that names the file
/// and what is wrong with it.
[[nodiscard]] WholeFile read_whole_file(const std::string& path);
/// The same for what a setting names, which the exception names too.
[[nodiscard]] WholeFile read_whole_file(std::string_view setting, const std::string& path);

}  // namespace pulsegate
