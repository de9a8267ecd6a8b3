#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

namespace pulsegate {

/// A field as it lies in a record that passes in an upgrade.
inline std::string record_field(std::uint8_t tag, const std::string& content) {
    std::string bytes(1, static_cast<char>(tag));
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(content.size() >> (8 * i));
    return bytes + content;
}

/// Of a file with hexadecimal digits.
inline std::string bytes_in(const std::string& path) {
    std::ifstream file(path);
    std::string digits;
    for (std::string line; std::getline(file, line);) digits += line;
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    return bytes;
}

}  // namespace pulsegate
