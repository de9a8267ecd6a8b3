#pragma once

#include <string>

namespace pulsegate {

/// A file with passwords, keys or tokens, read at start-up and on SIGHUP.
struct SecretFile {
    std::string text;
    std::string warning;  ///< says that other users may read or write it, with the remedy; or empty
};

/// Throws std::runtime_error that names the file and what is wrong with it.
[[nodiscard]] SecretFile read_secret_file(const std::string& path);

/// The first line of a file with a token, for the setting `setting`. Logs a warning if other users
/// may read the file. Throws std::runtime_error that names setting and file.
std::string read_token(const std::string& setting, const std::string& path);

/// The same for a token that requests show. It must fit in a header (RFC 6750, 2.1).
std::string read_bearer_token(const std::string& setting, const std::string& path);

/// Replaces a file atomically: readers, and a crash, find the old file or the new one. A new file
/// has the mode 0600; one that is replaced keeps its owner, its group and the group's permission to
/// read, because the gateway may run as another user than the one that writes. Throws
/// std::runtime_error.
void replace_secret_file(const std::string& path, const std::string& text);

}  // namespace pulsegate
