#pragma once

#include <string>

namespace pulsegate {

/// A file with passwords, keys or tokens, read at start-up and on SIGHUP.
struct SecretFile {
    std::string text;
    std::string warning;  ///< other users may read or write it, and the remedy; or ""
};

/// Throws std::runtime_error that names the file and the fault.
[[nodiscard]] SecretFile read_secret_file(const std::string& path);

/// The first line of a file with a token, for the setting `setting`. Logs a warning if other users
/// may read the file. Throws std::runtime_error that names setting and file.
std::string read_token(const std::string& setting, const std::string& path);

/// The same for a token that requests carry. It must fit in a header (RFC 6750, 2.1).
std::string read_bearer_token(const std::string& setting, const std::string& path);

/// Replaces a file atomically: readers find the old file or the new one, even after a crash. A new
/// file has mode 0600. A replaced file keeps its owner, its group and the group's permission to
/// read, because the gateway may run as another user than the writer. Throws std::runtime_error.
void replace_secret_file(const std::string& path, const std::string& text);

}  // namespace pulsegate
