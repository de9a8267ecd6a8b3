#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "loadgen/client/mqtt_client.h"
#include "loadgen/swarm/agenda.h"
#include "loadgen/swarm/roster.h"
#include "loadgen/truth/attendance.h"
#include "loadgen/truth/close_judge.h"
#include "loadgen/truth/read_proof.h"
#include "loadgen/truth/sent_flow.h"

namespace pulsegate::load {

/// A client of this worker: its connection, and the data of all activities about it. The data is
/// here instead of in each activity, so that a packet accesses one piece of memory.
struct SwarmClient : AgendaEntry {
    enum class State : std::uint8_t {
        unborn,   ///< has not arrived yet
        joining,  ///< an attempt to log in is in progress
        online,
        silent,
        napping,  ///< away as planned; its next time is its return
        waiting,  ///< for its next attempt
        gone,     ///< permanently
        hostile,
        count_
    };

    /// One of its contacts, and the messages to it.
    struct Flow {
        Roster::Contact contact;
        SentFlow sent;
    };
    static_assert(sizeof(Flow) <= 40);

    SwarmClient(ClientHost& host, const ClientProfile& profile, std::uint32_t number,
                std::uint16_t its_group)
        : mqtt(host, profile, number), group(its_group) {}

    std::uint32_t number() const { return mqtt.number; }
    bool online() const { return state == State::online; }

    /// Has it not arrived yet, or does it nap, or is it about to come back?
    bool away_as_planned(Time now) const {
        return state == State::unborn || state == State::napping ||
               (state == State::joining && failed_attempts == 0 &&
                now - mqtt.connecting_since() < std::chrono::seconds(1));
    }

    MqttClient mqtt;
    const std::uint16_t group;
    State state = State::unborn;
    /// Of the subscription to its own topic; nothing while it has no SUBACK.
    std::optional<QoS> granted;
    /// The lowest and the highest of its subscriptions to presence; likewise.
    std::optional<Range<QoS>> presence_granted;
    std::uint8_t pings_behind = 0;     ///< consecutive pings that were sent while another had no
                                       ///< answer
    std::uint8_t failed_attempts = 0;  ///< since it was online
    std::uint16_t script_at = 0;       ///< how far a hostile client got
    std::uint16_t keepalive = 0;       ///< agreed in its last successful login; 0: none
    bool entered = false;              ///< has been online
    bool in_ramp = false;              ///< its first attempt is one of those in progress
    bool in_storm = false;             ///< it vanished in a storm, and is not back
    bool falls_silent = false;
    bool talks = false;
    bool alive_for_watchers = false;   ///< its last reported state
    bool lacks_filters = false;        ///< the server refused one of its subscriptions
    bool session_expired = false;      ///< its kept session has once ended as agreed
    std::uint32_t session_expiry = 0;  ///< agreed in its last successful login, in seconds

    Time ping_at = Time::max();
    Time leave_at = Time::max();  ///< for a nap
    Time silent_at = Time::max();
    Time online_since{};
    Time alive_changed{};  ///< when that state began; zero: there was none
    Time last_send{};      ///< the last known value of `mqtt.before_send`

    Oversleeping oversleeping;
    Attendance attendance;
    ReadProof read_proof;
    std::vector<Flow> flows;  ///< by slot
    /// Like `granted`, of its rooms in the roster's order.
    std::vector<std::optional<QoS>> room_grants;
};

// 19,000 clients with four contacts each are 20 MB.
static_assert(sizeof(SwarmClient) <= 768);

}  // namespace pulsegate::load
