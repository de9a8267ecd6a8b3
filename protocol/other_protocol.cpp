#include "protocol/other_protocol.h"

#include <algorithm>
#include <string_view>

namespace pulsegate {

namespace {

constexpr std::string_view http_methods[] = {"GET ",     "POST ",     "HEAD ",    "PUT ",
                                             "DELETE ",  "PATCH ",    "OPTIONS ", "TRACE ",
                                             "CONNECT ", "PRI * HTTP"};

/// A record of the handshake (0x16) of SSL 3 or TLS, with a ClientHello (1) in it.
bool is_client_hello(std::string_view bytes) {
    return bytes.size() >= 3 && bytes.starts_with("\x16\x03") && bytes[2] <= 4 &&
           (bytes.size() < 6 || bytes[5] == 1);
}

}  // namespace

OtherProtocol other_protocol(Bytes first_bytes) {
    const std::string_view bytes = as_text(first_bytes);
    const auto begins = [bytes](std::string_view method) { return bytes.starts_with(method); };
    if (std::ranges::any_of(http_methods, begins)) return OtherProtocol::http;
    return is_client_hello(bytes) ? OtherProtocol::tls : OtherProtocol::none;
}

}  // namespace pulsegate
