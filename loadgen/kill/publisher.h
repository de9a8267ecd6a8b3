#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Publishes numbered messages to the receivers, and sends each until it is acknowledged.
class Publisher final : public Client {
public:
    Publisher(RunContext& context, std::uint16_t number, Version version);

    void start() { want_connection(true); }
    void begin();
    /// Messages in flight are still repeated until they are acknowledged.
    void finish() { publishing_ = false; }
    void pause(bool paused) { paused_ = paused; }
    bool idle() const { return in_flight_.empty(); }

private:
    struct InFlight {
        Message message;
        std::uint32_t delay = 0;     ///< seconds
        std::uint32_t lifetime = 0;  ///< seconds; 0: it has no expiry
        bool is_settled = false;     ///< QoS 2: PUBREC has come
    };

    void on_login(bool session_present) override;
    void taken_over(load::MqttClient&, std::uint64_t tag, Time now) override;
    void acknowledged(load::MqttClient&, std::uint64_t tag, Reason reason, Time, Time now) override;
    void in_doubt(load::MqttClient&, std::uint64_t tag) override;
    void work(Time now) override;

    void publish_one(Time now);
    std::uint16_t choose_receiver(Kind kind);
    bool may_send(const Stream& stream);
    std::uint32_t choose_lifetime(Kind kind);
    void transmit(std::uint64_t tag);
    void settle(InFlight& one, Reason reason, Time now);

    const std::uint16_t number_;
    std::discrete_distribution<std::size_t> kinds_;
    std::map<std::uint64_t, InFlight> in_flight_;  ///< by tag, in the order of the first send
    std::vector<std::uint64_t> to_transmit_;       ///< tags of those that need a new transmission
    std::uint64_t last_tag_ = 0;
    bool publishing_ = false;
    bool paused_ = false;
    bool has_session_ = false;
    double due_ = 0;  ///< messages
    Time worked_at_{};
};

}  // namespace pulsegate::kill
