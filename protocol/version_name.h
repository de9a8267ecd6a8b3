#pragma once

#include "protocol/packet.h"

namespace pulsegate {

/// `5.0`
constexpr const char* version_name(Version version) {
    switch (version) {
        case Version::v5_0: return "5.0";
        case Version::v3_1: return "3.1";
        default: return "3.1.1";
    }
}

}  // namespace pulsegate
