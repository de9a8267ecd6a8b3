#pragma once

#include <cstdint>
#include <deque>
#include <random>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Publishes numbered messages to the receivers, and repeats each until it is acknowledged.
class Publisher final : public Client {
public:
    Publisher(Scene& scene, std::uint16_t number, Version version);

    void start() { want_connection(true); }
    void begin();
    /// Messages in flight are still repeated until they are acknowledged.
    void finish() { publishing_ = false; }
    void pause(bool paused) { paused_ = paused; }
    bool idle() const { return in_flight_.empty(); }

private:
    struct InFlight {
        Message message;
        std::uint16_t packet_id = 0;
        std::uint32_t delay = 0;     ///< seconds
        std::uint32_t lifetime = 0;  ///< seconds; 0: it has no expiry
        bool released = false;       ///< QoS 2: PUBREC has come
    };
    using Place = std::deque<InFlight>::iterator;

    void on_login(const Connack& connack) override;
    void on_packet(const Packet& packet) override;
    void work(Time now) override;

    void publish_one(Time now);
    std::uint16_t choose_receiver(Kind kind);
    bool may_send(const Stream& stream);
    std::uint32_t choose_lifetime(Kind kind);
    void transmit(const InFlight& one, bool dup);
    void repeat(const InFlight& one, bool dup);
    void resume();
    void start_anew();

    void take(const Puback& ack);
    void take(const Pubrec& ack);
    void take(const Pubcomp& ack);
    Place find(std::uint16_t packet_id);
    void settle(const Message& message, Reason reason);

    const std::uint16_t number_;
    std::discrete_distribution<std::size_t> kinds_;
    std::deque<InFlight> in_flight_;  ///< in the order in which they were first sent
    std::size_t window_ = 0;
    std::uint16_t last_packet_id_ = 0;
    bool publishing_ = false;
    bool paused_ = false;
    bool has_session_ = false;
    double due_ = 0;  ///< messages
    Time worked_at_{};
};

}  // namespace pulsegate::kill
