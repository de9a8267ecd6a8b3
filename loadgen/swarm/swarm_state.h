#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/client/mqtt_client.h"
#include "loadgen/stalls.h"
#include "loadgen/swarm/agenda.h"
#include "loadgen/swarm/assignment.h"
#include "loadgen/swarm/profiles.h"
#include "loadgen/swarm/roster.h"
#include "loadgen/swarm/swarm_client.h"
#include "loadgen/truth/close_judge.h"
#include "loadgen/truth/samples.h"

namespace pulsegate::load {

/// The clients of a worker, and what their activities share: the phase of the run, the times, the
/// measurements and the findings. The agenda, the loop and the clients have interfaces of their
/// own.
class SwarmState {
public:
    enum class Phase : std::uint8_t { idle, arriving, measuring, draining, over };
    using State = SwarmClient::State;

    /// The assignment and the profiles outlive it.
    SwarmState(Loop& the_loop, ClientOwner& owner, const Assignment& its_assignment,
               const Profiles& profiles);

    // Phases, in this order.
    void start(Time at);
    void measure(Time at);
    void drain() { phase_ = Phase::draining; }
    void end() { phase_ = Phase::over; }
    Phase phase() const { return phase_; }
    Time started() const { return started_; }
    /// `max()`: not yet.
    Time measured_since() const { return measured_since_; }

    // Clients.
    bool owns(std::uint32_t number) const {
        return number < roster.clients() && number % assignment.workers == assignment.worker;
    }
    SwarmClient& client(std::uint32_t number) { return clients[number / assignment.workers]; }
    SwarmClient& client(const MqttClient& mqtt) { return client(mqtt.number); }
    const Group& group(const SwarmClient& client) const { return scenario().groups[client.group]; }
    /// Do messages between these clients go from one node of a cluster to another one?
    bool crosses_nodes(std::uint32_t sender, std::uint32_t receiver) const;
    void enter(SwarmClient& client, State state);
    std::uint32_t count(State state) const { return counts_[static_cast<std::size_t>(state)]; }

    /// Silence after which the server must close it; zero: never. It belongs to the last successful
    /// login: a new attempt changes nothing for the earlier connection.
    Duration limit_of(const SwarmClient& client) const;
    /// See Scenario::late_after.
    Duration late_after() const { return scenario().late_after(assignment.target.cluster); }
    /// Has it a session that may be older than its connection? Then messages may come again.
    bool resumed(const SwarmClient& client) const {
        return group(client).kept_session && client.mqtt.connections() > 1;
    }
    /// Call it before and after sends, so that a silence that is too long is noticed.
    void note_sends(SwarmClient& client);
    SilenceAtClose silence_of(const SwarmClient& client, Time now) const;
    /// True if the server was right to close it, because the generator kept it from sending.
    bool starved(const SwarmClient& client, Time now) const;

    // Measurements.
    Measurements& at(Time time) { return samples_.at(time); }
    std::uint32_t second_of(Time at) const { return samples_.second_of(at); }
    std::map<std::uint32_t, Measurements> take_samples() { return samples_.take(); }
    /// The generator stood still until now.
    void stalled(Duration length, Time now) { stalls_.add(now, length); }
    /// How much of a delay that is seen at this time may be the generator's own.
    Duration own_delay(Time at) const { return stalls_.before(at); }
    /// The server has ended a connection although its client talked or logged in. It may have
    /// crashed.
    void broke() { ++broken_; }
    /// How often that was.
    std::uint32_t broken() const { return broken_; }

    // Findings.
    void give_example(std::string text);
    /// The server sent something that the protocol does not allow.
    void count_violation(const SwarmClient& client, std::string_view what, Time now);
    void mark(Time at, std::string text);
    /// A choice or event that the user may not expect.
    void note(std::string text) { notes_.push_back(std::move(text)); }
    const std::vector<std::string>& examples() const { return examples_; }
    const std::vector<std::string>& notes() const { return notes_; }
    std::vector<std::pair<double, std::string>> take_marks() { return std::exchange(marks_, {}); }

    // Names and times.
    const Scenario& scenario() const { return assignment.scenario; }
    std::string client_topic(std::uint32_t number) const;
    std::string room_topic(std::uint32_t room) const;
    bool is_topic_of(const Roster::Contact& contact, std::string_view topic) const;
    Time common(Time local) const { return local + assignment.clock_offset; }
    Time local(Time common) const { return common - assignment.clock_offset; }
    double since_start(Time at) const { return seconds(at - started_); }

    double dice(double from, double to) {
        return std::uniform_real_distribution<double>(from, to)(random_);
    }
    Duration dice(const Range<Duration>& range) {
        return from_seconds(dice(seconds(range.least), seconds(range.most)));
    }
    std::size_t choose(std::size_t count) {
        return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
    }
    void shuffle(auto& range) { std::ranges::shuffle(range, random_); }

    const Assignment& assignment;
    const Roster roster;
    const CloseJudge closes;
    Loop& loop;
    ClientHost host;
    std::deque<SwarmClient> clients;  ///< by number / workers
    Agenda agenda;

private:
    const std::string topics_;                           ///< the beginning of the run's topics
    const std::vector<std::vector<std::size_t>> nodes_;  ///< by group; empty without a cluster
    std::array<std::uint32_t, static_cast<std::size_t>(State::count_)> counts_{};
    Phase phase_ = Phase::idle;
    Time started_{};
    Time measured_since_ = Time::max();
    std::uint32_t broken_ = 0;
    Samples samples_;
    Stalls stalls_;
    std::mt19937_64 random_;
    std::vector<std::string> examples_;
    std::vector<std::string> notes_;
    std::vector<std::pair<double, std::string>> marks_;
};

/// A client's name in examples.
std::string who(const SwarmClient& client);

}  // namespace pulsegate::load
