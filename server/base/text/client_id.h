#pragma once

#include <string>

namespace pulsegate {

/// A unique client id for a client that sent none: "auto-" and 64 random bits.
std::string random_client_id();

}  // namespace pulsegate
