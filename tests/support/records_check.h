#pragma once

#include "protocol/bytes.h"

namespace pulsegate {

/// Plays a client that sends TLS records, good and bad ones, as these bytes say. Returns what does
/// not hold of how the gateway takes them; null if all holds.
const char* broken_records_promise(Bytes script);

}  // namespace pulsegate
