#pragma once

#include <vector>

#include "protocol/packet.h"
#include "tests/support/durable_client.h"

namespace pulsegate {

/// The clients of a CrashPlay.
enum class CrashPerson {
    ann_phone,
    ann_desk,
    bob_phone,
    bob_desk,
    cat,
    worker,
    helper,
    dan,
    eve,
    fay,
    gus,
    hal
};

/// In their order.
const std::vector<DurableClient::Terms>& crash_people();

struct UsualSubscription {
    CrashPerson who;
    const char* filter;
    QoS qos;
};

/// No others are played, so that each client has one QoS for a filter.
const std::vector<UsualSubscription>& usual_subscriptions();

}  // namespace pulsegate
