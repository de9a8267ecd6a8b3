#pragma once

#include <string>
#include <string_view>

namespace pulsegate {

/// Bytes in packet notation, so that the specification can be read off a test. Tokens are separated
/// by spaces:
///
///     10          a byte in hexadecimal; several may stand together (`c000`)
///     'text'      these characters
///     s4          the two-byte length of a text or of binary data: s4 'MQTT'
///     s'MQTT'     the same, counted for you
///     k60         a two-byte number: a keepalive, a packet identifier, a receive maximum
///     w3600       a four-byte number: an expiry interval, a maximum packet size
///     r13         a variable byte integer: a remaining length, a property length
///     r           the remaining length, counted for you: all that follows, up to `|` or the end
///     [ ... ]     a list with its length, counted for you, in front: the properties
///     |           the next packet begins
///
/// A byte or a text may be repeated: `'x'*1000`, `00*3`.
///
///     wire("10 r s'MQTT' 05 02 k10 [ 21 k20 ] s1 'p' | c0 r0")
///
/// Throws std::invalid_argument when the notation is wrong.
std::string wire(std::string_view notation);

/// Bytes as hexadecimal, for messages: "c0 00".
std::string hex(std::string_view bytes);

}  // namespace pulsegate
