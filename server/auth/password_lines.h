#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>

namespace pulsegate {

/// Identifies a line of the password file. A line that was changed, or removed and added again,
/// gets another number. 0: none.
using PasswordLine = std::uint32_t;

/// The lines of one reading of the file.
struct PasswordLines {
    boost::unordered_flat_set<PasswordLine> lines{};
    /// A fingerprint of each line's user and password, the same in every process.
    boost::unordered_flat_map<PasswordLine, std::uint64_t> fingerprints{};
    boost::unordered_flat_map<std::uint64_t, PasswordLine> by_fingerprint{};
    PasswordLine last = 0;  ///< the highest number so far, even of removed lines

    /// True if the line is in the file, or belongs to a later reading.
    bool include(PasswordLine line) const { return line > last || lines.contains(line); }
};

}  // namespace pulsegate
