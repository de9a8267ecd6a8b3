#pragma once

#include <cstdint>

#include "protocol/bytes.h"

namespace pulsegate {

/// Plays clients that send TLS records, good and bad ones, as these bytes say, one client after the
/// other. Returns what does not hold of how the gateway takes them; null if all holds.
const char* broken_records_promise(Bytes script);

/// How many records the gateway's side has opened or refused in this process. What follows the end
/// of a connection does not count, and records that are read a second time, in pieces, count once.
std::uint64_t checked_records();

}  // namespace pulsegate
