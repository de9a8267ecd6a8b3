#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>

namespace pulsegate {

/// Identifies a line of the password file, by which a client was let in. A line that was changed,
/// or removed and added again, has another number. 0: none.
using PasswordLine = std::uint32_t;

/// The lines of one reading of the file.
struct PasswordLines {
    boost::unordered_flat_set<PasswordLine> lines{};
    /// Of each line, of its user and of its password: the same in every process.
    boost::unordered_flat_map<PasswordLine, std::uint64_t> fingerprints{};
    boost::unordered_flat_map<std::uint64_t, PasswordLine> by_fingerprint{};
    PasswordLine last = 0;  ///< the highest number so far, also of lines that are gone

    /// Is the line in the file, or of a later reading?
    bool include(PasswordLine line) const { return line > last || lines.contains(line); }
};

}  // namespace pulsegate
