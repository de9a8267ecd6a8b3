#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "loadgen/torture/client.h"

namespace pulsegate::torture {

/// Subscribes to what is sent to it, and is there always, or slow, or comes and goes.
class Receiver final : public Client {
public:
    Receiver(Scene& scene, std::uint16_t number, Version version);

    /// Until it is told to live as it likes, it is there.
    void start() { want_connection(true); }
    void live_as_it_likes();
    void stay();
    void reconnect() { end_connection(Ending::disconnect); }

    bool subscribed() const { return subscribed_; }

private:
    struct Habit;
    struct Answer {
        Time due{};
        Packet packet;
    };
    static const Habit habits[];

    void on_login(const Connack& connack) override;
    void on_packet(const Packet& packet) override;
    void on_end() override { answers_.clear(); }
    void work(Time now) override;

    void take(const Suback& suback);
    void take(const Publish& publish);
    void take(const Pubrel& pubrel);
    void answer(const Packet& packet);
    void come_or_go(Time now);

    const std::uint16_t number_;
    const Habit& habit_;
    bool subscribed_ = false;
    bool as_it_likes_ = false;
    bool there_ = true;
    Time change_at_{};
    Time quiet_since_{};
    std::map<std::uint16_t, Message> unreleased_;  ///< QoS 2, by packet identifier
    std::deque<Answer> answers_;                   ///< of those that are slow
};

}  // namespace pulsegate::torture
