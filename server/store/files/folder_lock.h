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

private:
    UniqueFd file_;
};

}  // namespace pulsegate
