#pragma once

#include "protocol/packet.h"

namespace pulsegate {

inline constexpr Version v4 = Version::v3_1_1;  ///< its protocol level
inline constexpr Version v5 = Version::v5_0;

}  // namespace pulsegate
