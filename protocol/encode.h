#pragma once

#include <cstddef>

#include "protocol/bytes.h"
#include "protocol/packet.h"

namespace pulsegate {

/// Appends the packet's bytes to `out`. Leaves out what `version` can't express: in 3.1.1,
/// properties and most reason codes. The caller's values are trusted (`assert`), not checked.
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
/// Reference if the reason sends the client to another server. Parts that would make the packet
/// larger than `max_packet_size` are left out, if necessary the whole packet; 0: no limit.
Buffer refusing_connack(Version version, Reason reason, std::string_view words,
                        std::uint32_t max_packet_size, std::string_view server_reference = {});

/// The size of an encoded PUBLISH, for clients of 5.0 with a Maximum Packet Size.
std::size_t encoded_size(const Publish& packet, Version version);

}  // namespace pulsegate
