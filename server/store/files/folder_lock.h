#pragma once

#include <string>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Makes the data folder if it is not there, and keeps other servers out of it while this object
/// lives, by a lock on DIR/lock. The file, with the process id of the last holder, stays.
class FolderLock {
public:
    /// Throws std::runtime_error with one line that says what to do.
    explicit FolderLock(const std::string& folder);
    /// Goes on with a lock that another process shares: see `share`. Throws, too, if it is that of
    /// another folder.
    FolderLock(const std::string& folder, UniqueFd shared);

    /// The lock as another descriptor: the folder is locked until both are closed, also if one of
    /// them belongs to another process. Empty if the process can't open any more files.
    UniqueFd share() const;

private:
    void enter(const std::string& folder);

    UniqueFd file_;
};

}  // namespace pulsegate
