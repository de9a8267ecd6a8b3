#pragma once

#include <string>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// The path of a Unix socket. The system takes at most 107 bytes, so `short_path` names the folder
/// by a descriptor. It is valid as long as this object lives.
class LocalSocketPath {
public:
    /// Throws boost::system::system_error if there is no such folder.
    explicit LocalSocketPath(const std::string& path);

    const std::string& short_path() const { return short_path_; }

    /// Removes a socket that no process listens on any more. Throws boost::system::system_error if
    /// one does, or if the file is no socket.
    void remove_leftover() const;

private:
    UniqueFd folder_;
    std::string short_path_;
};

}  // namespace pulsegate
