#pragma once

#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/start/service_manager.h"

namespace pulsegate {

/// What a server goes on with that another process has had.
struct Inheritance {
    UniqueFd lock{};  ///< of the data folder, see FolderLock
    std::vector<PassedSocket> sockets{};
};

}  // namespace pulsegate
