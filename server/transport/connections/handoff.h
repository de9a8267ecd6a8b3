#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/packet.h"
#include "server/base/files/unique_fd.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"

namespace pulsegate {

struct ConnectionExtras;

/// The counts of open connections: in the process, and by address. Any thread may use it.
struct ConnectionCounts {
    Admission& admission;
    AddressLimits& address_limits;

    void closed(const Address& address) const {
        admission.closed();
        address_limits.leave(address);
    }
};

/// The origin of a connection, and the rights of its address.
struct Origin {
    Address address{};  ///< unknown until the proxy has stated it
    AddressLimits::Standing standing = AddressLimits::Standing::ok;
    std::uint16_t listener = 0;  ///< the listener that accepted it, see ConnectionContext
};

/// A connection without a transport: it was just accepted, or is on its way to another shard. It
/// owns the socket and its place in the counts. If no transport takes the socket, the socket is
/// closed and no longer counted. It belongs to one thread at a time.
struct Handoff {
    Handoff(UniqueFd socket, std::unique_ptr<ConnectionExtras> extras, Origin origin,
            ConnectionCounts counts);
    Handoff(Handoff&&) noexcept;
    ~Handoff();

    UniqueFd socket;
    std::unique_ptr<ConnectionExtras> extras;  ///< null for plain MQTT
    Origin origin;
    ConnectionCounts counts;
    Version version = Version::v3_1_1;  ///< the version that its CONNECT states
    std::string unread{};               ///< bytes of MQTT after the CONNECT
    std::string unsent{};               ///< output that the socket has not accepted, such as a pong
};

}  // namespace pulsegate
