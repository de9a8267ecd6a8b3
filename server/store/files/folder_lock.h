#pragma once

#include <string>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Creates the data folder if it does not exist, and keeps other servers out of it while this
/// object exists, with a lock on DIR/lock. The file stays, with the process id of the last holder.
class FolderLock {
public:
    /// Throws std::runtime_error with one line that says what to do.
    explicit FolderLock(const std::string& folder);
    /// Takes over a lock that another process shares: see `share`. Also throws if it is the lock of
    /// another folder.
    FolderLock(const std::string& folder, UniqueFd shared);

    /// The lock as another descriptor: the folder is locked until both descriptors are closed, even
    /// if one of them belongs to another process. Empty if the process can't open more files.
    UniqueFd share() const;

private:
    void enter(const std::string& folder);

    UniqueFd file_;
};

}  // namespace pulsegate
