#pragma once

#include <cstdint>

#include "tests/support/random_session.h"

namespace pulsegate {

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
