#pragma once

#include <cstddef>

#include "protocol/bytes.h"
#include "protocol/packet.h"

namespace pulsegate {

/// Appends the packet's bytes to `out`. What `version` can't say is left out: properties and most
/// reason codes in 3.1.1. The caller's values are trusted (`assert`), not checked.
void encode(const Connect& packet, Buffer& out);
void encode(const Connack& packet, Version version, Buffer& out);
void encode(const Publish& packet, Version version, Buffer& out);
void encode(const Puback& packet, Version version, Buffer& out);
void encode(const Pubrec& packet, Version version, Buffer& out);
void encode(const Pubrel& packet, Version version, Buffer& out);
void encode(const Pubcomp& packet, Version version, Buffer& out);
void encode(const Subscribe& packet, Version version, Buffer& out);
void encode(const Suback& packet, Version version, Buffer& out);
void encode(const Unsubscribe& packet, Version version, Buffer& out);
void encode(const Unsuback& packet, Version version, Buffer& out);
void encode(Pingreq, Buffer& out);
void encode(Pingresp, Buffer& out);
void encode(const Disconnect& packet, Version version, Buffer& out);
void encode(const Auth& packet, Buffer& out);  // 5.0 only

void encode(const Packet& packet, Version version, Buffer& out);

/// The CONNACK of a refusal, with `words` as the reason string of 5.0, and with the Server
/// Reference if the reason sends the client elsewhere. Whatever would make it larger than
/// `max_packet_size` is left out, the whole packet if need be; 0: no limit.
Buffer refusing_connack(Version version, Reason reason, std::string_view words,
                        std::uint32_t max_packet_size, std::string_view server_reference = {});

/// How large a PUBLISH will be: a 5.0 client may have stated a Maximum Packet Size.
std::size_t encoded_size(const Publish& packet, Version version);

}  // namespace pulsegate
