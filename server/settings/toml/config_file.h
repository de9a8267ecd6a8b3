#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace pulsegate {

/// A line of the settings file: `idle-timeout = "30s"`, or a list, which may take several lines.
struct FileLine {
    struct Value {
        std::string text;
        std::size_t line;
    };

    std::string name;
    std::size_t line;
    bool is_list = false;
    std::vector<Value> values{};
};

/// A line that can't be read; `what` says why and what to write.
using FileFault = std::function<void(std::size_t line, const std::string& what)>;

/// Reads the text of a settings file: the part of TOML that has names, texts in quotes, numbers,
/// `true`, `false` and lists of these. Lines that can't be read are reported to `fault` and left
/// out. `meant` suggests a name for an unknown one, or "", and `is_number` says whether a setting
/// is written as a number.
std::vector<FileLine> read_settings_file(
    const std::string& text, const FileFault& fault,
    const std::function<std::string(const std::string& name)>& meant,
    const std::function<bool(const std::string& name)>& is_number);

}  // namespace pulsegate
