#pragma once

#include <string>
#include <vector>

#include "loadgen/report/record.h"
#include "loadgen/scenario/scenario.h"

namespace pulsegate::load {

/// The evidence for the checks of `judge_run`.
struct Evidence {
    const Scenario& scenario;
    const RunRecord& record;
    std::vector<Stretch> stretches;  ///< of the measured part
    Measurements part;               ///< their sum

    std::uint64_t operator[](Count count) const { return record.totals[count]; }
    const Histogram& operator[](Timing timing) const { return record.totals[timing]; }
};

/// The checks of each part, assuming that the generator was fast enough.
std::vector<CheckResult> connection_checks(const Evidence& seen);
std::vector<CheckResult> message_checks(const Evidence& seen);
std::vector<CheckResult> presence_checks(const Evidence& seen);
std::vector<CheckResult> pace_checks(const Evidence& seen);  ///< how long things took

/// Did hostile clients slow down the others?
CheckResult hostile_check(const Evidence& seen);

/// Did the server stand still for a second, as if it were stopped?
CheckResult stall_check(const Evidence& seen);

/// Only Pulsegate shows presence as the generator's watchers and questions look for it.
bool is_pulsegate(const Evidence& seen);

/// Why a check of what MQTT does not demand is skipped for other servers.
inline constexpr const char* only_pulsegate =
    "only Pulsegate promises this, and the server is not known to be one (--metrics would show it)";

CheckResult skipped(const char* name, std::string promise, std::string why);

/// Failed if anything was counted.
CheckResult none_of(const char* name, std::string promise, std::uint64_t count, std::string detail);

/// "3 early, 1 late": those that are not zero.
class Enumeration {
public:
    Enumeration& add(std::uint64_t count, std::string_view what);
    const std::string& text() const { return text_; }

private:
    std::string text_;
};

/// The limits of silent clients, from the shortest to the longest keepalive.
Range<Duration> limits_of(const Scenario& scenario);

/// How long after its limit a silent client may be closed: one tick, because the timers of some
/// servers have a resolution of a second.
inline constexpr Duration closing_tick = std::chrono::seconds(1);

}  // namespace pulsegate::load
