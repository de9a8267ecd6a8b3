#pragma once

#include <optional>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/start/service_manager.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

/// The parts that a server takes over from another process.
struct Inheritance {
    UniqueFd lock{};  ///< of the data folder, see FolderLock
    std::vector<PassedSocket> sockets{};
    std::optional<GatewayRecord> gateway{};  ///< nothing if the other process is too old
};

}  // namespace pulsegate
