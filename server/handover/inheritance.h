#pragma once

#include <optional>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/start/service_manager.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

/// What a server goes on with that another process has had.
struct Inheritance {
    UniqueFd lock{};  ///< of the data folder, see FolderLock
    std::vector<PassedSocket> sockets{};
    std::optional<GatewayRecord> gateway{};  ///< nothing if the other process is too old
};

}  // namespace pulsegate
