#pragma once

#include "protocol/reason.h"

namespace pulsegate {

/// Why bytes are not a packet: the reason code for the answer, and the cause in words for the log.
struct DecodeError {
    Reason reason;
    const char* cause;
};

}  // namespace pulsegate
