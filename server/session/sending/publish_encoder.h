#pragma once

#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/packet.h"
#include "server/message/message.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// The differences between the PUBLISH packets of one message to its receivers.
struct PublishOptions {
    Version version = Version::v3_1_1;
    QoS qos = QoS::at_most_once;
    bool dup = false;
    bool retain = false;
    std::uint16_t packet_id = 0;  ///< used above QoS 0
    std::span<const std::uint32_t> identifiers{};
    std::uint16_t alias = 0;   ///< of the topic on this connection; 0: none
    bool alias_known = false;  ///< the client knows the alias, and the topic is left out
};

/// One message as PUBLISH packets. Receivers with the same protocol version, QoS and use of aliases
/// share an encoding. Flags, packet identifier and alias are written for each receiver.
class PublishEncoder {
public:
    /// `now` decides the remaining Message Expiry Interval. `message` and `settings` must outlive
    /// the encoder.
    PublishEncoder(const BrokerSettings& settings, const Message& message, Millis now)
        : settings_(settings), message_(message), now_(now) {}
    PublishEncoder(const PublishEncoder&) = delete;
    PublishEncoder& operator=(const PublishEncoder&) = delete;
    ~PublishEncoder();

    /// The packet for one receiver, valid until the next call.
    std::string_view packet(const PublishOptions& options);

private:
    enum class Aliasing : std::uint8_t { none, introduced, known };
    struct Kind {
        bool is_v5_0;
        QoS qos;
        Aliasing aliasing;
        bool operator==(const Kind&) const = default;
    };
    struct Encoding {
        Kind kind;
        Buffer bytes{};
    };

    Buffer& encoding(const PublishOptions& options);
    void encode_into(Buffer& out, const PublishOptions& options) const;

    static constexpr std::size_t kinds = 3 + 3 * 3;  ///< versions before 5.0 have no aliases

    const BrokerSettings& settings_;
    const Message& message_;
    const Millis now_;
    boost::container::static_vector<Encoding, kinds> encodings_;
    Buffer single_;  ///< a packet with subscription identifiers, which is encoded for each receiver
};

}  // namespace pulsegate
