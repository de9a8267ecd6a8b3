#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "server/session/users/history.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

// Passes a history to another process, in an upgrade.

/// Calls `visit` with all events of the shard's history, in records that are not large.
void describe(const History& history, std::uint32_t shard,
              const std::function<void(const HistoryRecord&)>& visit);

/// Adds events of another process. Kinds of events that this version does not know are left out.
void adopt(History& history, const HistoryRecord& record);

inline constexpr std::size_t events_of_record = 1000;

}  // namespace pulsegate
