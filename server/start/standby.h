#pragma once

#include <functional>

#include "server/cluster/membership.h"
#include "server/settings/config.h"

namespace pulsegate {

/// A node of the cluster that the settings name.
Membership::Options membership_options(const Config& config);

/// Stands by until this node owns the data of its cluster. Meanwhile no client is let in; the HTTP
/// listeners answer probes and what the cluster does. False when `give_up` says so, which is asked
/// some times a second. Throws ConfigError.
bool stand_by(Membership& cluster, const Config& config, const std::function<bool()>& give_up);

}  // namespace pulsegate
