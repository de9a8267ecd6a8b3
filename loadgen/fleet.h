#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/crowd.h"
#include "loadgen/ledger.h"
#include "loadgen/periods.h"
#include "loadgen/storm.h"

namespace pulsegate::load {

/// The established clients of a run, on one thread: they keep talking, or fall silent, and the
/// fleet records the results. It leads the run through its phases, the storm included, and judges
/// only the time of a close.
class Fleet : public Crowd {
public:
    enum class Phase { ramping, running, draining, done };

    /// The state of the run for a progress line; valid during the call.
    struct Glance {
        Phase phase;
        Duration elapsed;       ///< in this phase
        Duration length;        ///< of this phase, if it is known
        std::uint64_t packets;  ///< sent and received in this phase
        std::uint32_t open;
        const Storm::Status& storm;
        const Results& results;  ///< without the storm's
    };
    using Watch = std::function<void(const Glance&)>;

    Fleet(asio::io_context& io, const Plan& plan, const asio::ip::tcp::endpoint& target);

    /// Returns when the run is over. Calls `watch` a few times a second.
    void run(Watch watch);

    /// Ends the run soon, with the results so far.
    void interrupt();

private:
    void take_turn(Time now) override;
    Time next_turn() const override;
    void logged_in(Client& client, Time now) override;
    void is_due(Client& client, Time now) override;
    void received(Client& client, const Publish& packet, Time now) override;
    void acknowledged(Client& client, const Puback& packet) override;
    void ping_answered(Time sent, Duration took) override;
    void lost(Client& client, Client::Stage stage, const std::string& cause) override;
    void stalled(Time planned, Duration late) override;

    // The phases.
    void keep_ramping(Time now);
    Duration enter(Phase next, Time now);
    void start_running(Time now);
    void start_draining(Time now);
    void finish(Time now);
    bool silence_settled(Time now) const;
    bool everything_arrived() const;
    void count_what_is_missing(Time now);
    void glance(Time now);

    // The storm.
    void on_storm(const Storm::Status& status);
    void strike_if_due(Time now);
    bool storm_settled() const;

    void fall_silent(Client& client, Time now);
    void lose_talker(Client& client, const std::string& cause);
    void lose_silent(Client& client);
    void count_still_open(const Client& client, Time now);

    void send_due_messages(Time now);
    void send_message(Time planned);
    void remove_talker(Client& client);

    std::uint32_t open_clients() const;  // of the established, after the ramp
    std::uint64_t sent_by_all() const { return packets_sent_ + storm_status_.packets_sent; }
    std::uint64_t received_by_all() const {
        return packets_received_ + storm_status_.packets_received;
    }

    Watch watch_;
    Phase phase_ = Phase::ramping;
    Time phase_start_{};
    Time next_glance_{};
    std::uint64_t packets_at_phase_start_ = 0;
    Duration cpu_at_start_{};

    Schedule messages_;
    std::vector<Client*> talkers_;
    Periods periods_;
    Ledger ledger_;
    Buffer payload_;

    std::uint32_t yet_to_fall_silent_ = 0;
    std::uint32_t silent_open_ = 0;
    Time last_judgement_{};

    bool gathering_ = false;
    bool struck_ = false;
    Storm::Status storm_status_;  ///< the last report of the storm
    std::optional<StormThread> storm_;
};

}  // namespace pulsegate::load
