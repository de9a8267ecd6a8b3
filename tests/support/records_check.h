#pragma once

#include "protocol/bytes.h"

namespace pulsegate {

/// Plays clients that send TLS records, good and bad ones, as these bytes say, one client after the
/// other. Returns what does not hold of how the gateway takes them; null if all holds.
const char* broken_records_promise(Bytes script);

}  // namespace pulsegate
