#pragma once

#include <vector>

#include "tests/support/crash_play.h"

namespace pulsegate {

/// The clients of a CrashPlay, in the order of its `Who`.
const std::vector<DurableClient::Terms>& crash_people();

struct UsualSubscription {
    CrashPlay::Who who;
    const char* filter;
    QoS qos;
};

/// No others are played, so that each client has one QoS for a filter.
const std::vector<UsualSubscription>& usual_subscriptions();

}  // namespace pulsegate
