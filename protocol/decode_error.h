#pragma once

#include "protocol/reason.h"

namespace pulsegate {

/// Why bytes are no packet: the code to answer with, and the cause in words for the log.
struct DecodeError {
    Reason reason;
    const char* cause;
};

}  // namespace pulsegate
