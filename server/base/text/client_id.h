#pragma once

#include <string>

namespace pulsegate {

/// A client id for a client that sent none: "auto-" and 64 random bits, which nobody else has.
std::string random_client_id();

}  // namespace pulsegate
