#pragma once

#include <string>

namespace pulsegate {

/// A file that grants access to somebody, read at start-up.
struct SecretFile {
    std::string text;
    std::string warning;  ///< that others may read or write it, with the remedy; or empty
};

/// Throws std::runtime_error that names the file and what is wrong with it.
SecretFile read_secret_file(const std::string& path);

/// Replaces a file as a whole: a reader, or a crash, finds the old one or the new one. A new file
/// is its owner's alone (0600); one that is replaced keeps its owner, its group and the group's
/// right to read, because the gateway may run as somebody else than who writes. Throws
/// std::runtime_error.
void replace_secret_file(const std::string& path, const std::string& text);

}  // namespace pulsegate
