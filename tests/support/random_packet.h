#pragma once

#include <deque>
#include <random>
#include <string>

#include "protocol/decode.h"

namespace pulsegate {

/// Makes legal packets of every type, with all optional fields and properties. The same seed gives
/// the same packets. Owns the texts that the packets view.
class RandomPackets {
public:
    explicit RandomPackets(std::uint32_t seed) : random_(seed) {}

    /// The next packet; the texts of the last one are invalid then.
    Packet next(Version version, Sender sender);

private:
    struct Case {
        Version version;
        Sender sender;
        bool v5() const { return version == Version::v5_0; }
    };

    Connect connect(Case c);
    Connack connack(Case c);
    Publish publish(Case c);
    template <class Acknowledgement>
    Acknowledgement acknowledgement(Case c);
    Subscribe subscribe(Case c);
    Suback suback(Case c);
    Unsubscribe unsubscribe(Case c);
    Unsuback unsuback(Case c);
    Disconnect disconnect(Case c);
    Auth auth(Case c);

    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(random_() % bound);
    }
    bool maybe() { return below(2) == 0; }
    std::uint16_t packet_id() { return static_cast<std::uint16_t>(1 + below(65'535)); }
    QoS qos() { return QoS{static_cast<std::uint8_t>(below(3))}; }
    std::uint32_t number();
    std::string_view keep(std::string text);
    std::string_view text();
    std::string_view name();
    std::string_view topic();
    std::string_view filter();
    std::string_view bytes();
    Reason one_of(std::initializer_list<Reason> reasons);
    Properties keep(PropertyList list);
    void add_message_properties(PropertyList& list);
    void add_common(PropertyList& list, bool reason_string);

    std::mt19937 random_;
    std::deque<std::string> texts_;
};

}  // namespace pulsegate
