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

/// Where open connections are counted: in the process, and by their address. Any thread may use it.
struct ConnectionCounts {
    Admission& admission;
    AddressLimits& address_limits;

    void closed(const Address& address) const {
        admission.closed();
        address_limits.leave(address);
    }
};

/// Where a connection comes from, and what its address may do.
struct Origin {
    Address address{};  ///< unknown as long as a proxy has not said it
    AddressLimits::Standing standing = AddressLimits::Standing::ok;
    std::uint16_t listener = 0;  ///< that accepted it, see ConnectionContext
};

/// A connection that has no transport: it has just been accepted, or is on its way to another
/// shard. It owns the socket and its place in the counts; if nobody takes the socket, it is closed
/// and no longer counted. It belongs to one thread at a time.
struct Handoff {
    Handoff(UniqueFd socket, std::unique_ptr<ConnectionExtras> extras, Origin origin,
            ConnectionCounts counts);
    Handoff(Handoff&&) noexcept;
    ~Handoff();

    UniqueFd socket;
    std::unique_ptr<ConnectionExtras> extras;  ///< null for plain MQTT
    Origin origin;
    ConnectionCounts counts;
    Version version = Version::v3_1_1;  ///< that its CONNECT states
    std::string unread{};               ///< bytes of MQTT after the CONNECT that was handed over
    std::string unsent{};               ///< that the socket has not taken, such as a pong
};

}  // namespace pulsegate
