#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pulsegate {

/// The value of Pulsegate-Signature: `t=TIME,v1=HEX`, where HEX is the HMAC-SHA256 of `TIME.BODY`.
/// The time, in seconds since 1970, is signed too, so an old request can't be replayed.
std::string webhook_signature(std::string_view secret, std::int64_t time, std::string_view body);

}  // namespace pulsegate
