#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Receives messages to itself or its group. It is always connected, or slow, or comes and goes.
class Receiver final : public Client {
public:
    /// One receiver, with a subscription and a kept session unless it is a guest.
    static std::unique_ptr<Receiver> one(RunContext& context, std::uint16_t number,
                                         Version version);
    static std::unique_ptr<Receiver> member(RunContext& context, std::uint16_t group,
                                            std::uint16_t member, Version version);

    /// Connects and stays connected until `live_as_it_likes`. A guest that comes and goes does not
    /// connect yet.
    void start();
    void live_as_it_likes();
    void stay();
    void reconnect() { end_connection(Ending::disconnect); }
    /// Nobody tells the broker that a guest of this edge has gone. So the broker still has the
    /// guest's session, and messages to that session are lost until the guest is back.
    void edge_killed(std::uint16_t place, Time now);

    /// Guests have no subscription, so they are ready at once.
    bool ready() const { return is_subscribed_ || filter_.empty(); }

private:
    struct Part {
        std::string id;
        std::string filter{};
        std::uint16_t number = 0;  ///< its own, or its group's; see ReceiverCounts
        std::optional<std::uint16_t> member{};
        Session session = Session::kept;
        std::size_t habit = 0;
    };
    Receiver(RunContext& context, Part part, Version version);

    struct Habit;
    struct Answer {
        Time due{};
        QoS qos{};
        std::uint16_t packet_id = 0;
    };
    static const Habit habits[];

    void on_login(bool session_present) override;
    void on_end() override;
    void work(Time now) override;
    void subscribed(load::MqttClient&, std::size_t, std::span<const Reason> reasons, Time) override;
    void received(load::MqttClient&, const Publish& publish, Time now) override;
    void received_again(load::MqttClient&, const Publish& publish, bool is_same, Time now) override;

    std::optional<Message> read(const Publish& publish, Time now);
    void answer(const Publish& publish, Time now);
    void come_or_go(Time now);
    void note_absence(Time now);

    const std::string filter_;
    const std::uint16_t number_;
    const std::optional<std::uint16_t> member_;
    const bool keeps_session_;
    const Habit& habit_;
    bool is_subscribed_ = false;
    bool as_it_likes_ = false;
    bool there_ = true;
    Time change_at_{};
    std::optional<Time> known_away_since_;  ///< of a guest; see MessageChecker::keep_no_session
    bool is_unnoticed_ = false;             ///< its edge was killed
    Time quiet_since_{};
    std::deque<Answer> answers_;  ///< of those that are slow
};

}  // namespace pulsegate::kill
