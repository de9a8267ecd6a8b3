#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/scenario/scenario.h"
#include "loadgen/units.h"

namespace pulsegate::load {

/// A group as it was written. Values that depend on other groups or on the number of clients are
/// still open.
struct GroupDraft {
    Group group;
    std::optional<Share> clients;
    bool clients_overridden = false;
    Share storm;

    /// Messages per second; nothing: the rest of `packets`.
    using Messages = std::optional<double>;
    // A group's own rates. The scenario's rates are divided among groups without their own.
    std::optional<Messages> messages;
    std::optional<double> ramp;
    std::optional<double> network_changes;

    std::optional<Duration> silent_over;
    std::string to;       ///< a group's name; empty: its own
    std::string watched;  ///< likewise

    std::map<std::string, std::string> where;  ///< the group's own settings, for errors
};

struct ScenarioDraft {
    Scenario scenario;
    std::uint64_t clients = 15'000;
    std::uint64_t clients_written = 15'000;  ///< in the file
    double packets = 3'000;
    std::optional<Duration> hostile_after;
    GroupDraft defaults;
    std::vector<GroupDraft> groups;
    std::map<std::string, std::string> where;
};

/// Divides clients and rates among the groups, and multiplies them by `scale`. Throws
/// `std::runtime_error` that names the wrong setting.
Scenario complete(ScenarioDraft draft, double scale);

}  // namespace pulsegate::load
