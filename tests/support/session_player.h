#pragma once

#include <cstdint>

#include "server/session/settings.h"
#include "tests/support/session_model.h"

namespace pulsegate {

/// What a play is about.
struct SessionScene {
    unsigned shards = 3;
    BrokerSettings settings{};
    int clients = 6;
    int steps = 1500;
    bool retained = false;
    bool shared = false;
    bool wills = false;
    bool inboxes = false;        ///< users have several devices, and some messages are for inboxes
    bool expiring = false;       ///< messages
    bool small_packets = false;  ///< clients with a Maximum Packet Size
    bool misbehaving = false;
    int delivery_percent = 30;  ///< share of events that deliver messages between shards

    /// Without these the model knows exactly what waits for whom.
    bool exact() const { return !retained && !shared; }
};

/// How often it happened what the model has rules for.
struct SessionsSeen {
    std::uint64_t received = 0, resent = 0, retained = 0, shared = 0, wills = 0;
    std::uint64_t full = 0, expired = 0, too_large = 0, by_inbox = 0;
};

/// Random clients do what clients do, to real brokers and to the model; the seed decides what. Adds
/// to `seen` what happened. Throws Broken with the seed, the step and what happened last, if the
/// brokers do wrong.
void play_sessions(const SessionScene& scene, unsigned seed, SessionsSeen& seen);

}  // namespace pulsegate
