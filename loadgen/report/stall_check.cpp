#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "loadgen/report/figures.h"
#include "loadgen/report/judging.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr double standing_still = 1;     // seconds
constexpr double enough_to_notice = 20;  // packets a second

/// A time in which no client heard anything, in seconds.
struct Standstill {
    double from = 0;
    double length = 0;
};

struct Standstills {
    std::vector<Standstill> of_the_server;
    std::size_t of_the_generator = 0;
};

/// The length of a silence that ends in this stretch, or is still going on at its end. If the
/// workers did not measure it, a stretch without packets counts.
double silence_of(const Stretch& stretch) {
    const double told = stretch.measured[Gauge::server_silence];
    if (told >= 0) return told;
    return stretch.measured[Count::packets_received] == 0 ? stretch.length : 0;
}

/// A silence only matters if the server owed something: an answer came late, or pings were sent in
/// seconds that lie entirely within the silence.
bool owed_something(const std::vector<Stretch>& stretches, const Stretch& at, double silence) {
    const double end = at.second + at.length;
    const auto around = between(stretches, at.second - std::ceil(silence), end + 1);
    for (const auto timing :
         {Timing::ping, Timing::acknowledgement, Timing::message, Timing::login})
        if (seconds(around[timing].max()) * 2 >= silence) return true;
    return between(stretches, end - silence, at.second)[Count::pings_sent] > 0 ||
           (silence >= at.length && at.measured[Count::packets_received] == 0 &&
            at.measured[Count::pings_sent] > 0);
}

bool generator_stood_still(const std::vector<Stretch>& stretches, const Stretch& at,
                           double silence) {
    const auto meanwhile =
        between(stretches, at.second - std::ceil(silence), at.second + at.length);
    return seconds(meanwhile[Timing::loop_lag].max()) * 2 >= silence;
}

/// Neighbouring stretches that report the same silence count as one.
Standstills standstills(const std::vector<Stretch>& stretches) {
    Standstills found;
    auto& all = found.of_the_server;
    double until = -1;  // the end of the last one
    for (const auto& stretch : stretches) {
        const double silence = silence_of(stretch);
        if (silence < standing_still || !owed_something(stretches, stretch, silence)) continue;
        if (generator_stood_still(stretches, stretch, silence)) {
            ++found.of_the_generator;
            continue;
        }
        const double end = stretch.second + stretch.length;
        const bool goes_on = !all.empty() && until >= stretch.second;
        if (!goes_on) all.push_back({std::max(0.0, end - silence), silence});
        const bool told = stretch.measured[Gauge::server_silence] >= 0;
        auto& length = all.back().length;
        if (goes_on) length = told ? std::max(length, silence) : length + silence;
        until = end;
    }
    return found;
}

}  // namespace

CheckResult stall_check(const Evidence& seen) {
    const char* promise = "the server never stood still for a second";
    const double rate = mean_rate(seen.record, Count::packets_received);
    if (rate < enough_to_notice)
        return skipped("server_stalled", promise,
                       fmt::format("{} packets from it are too few to tell", show_rate(rate)));
    const auto found = standstills(seen.stretches);
    const auto& all = found.of_the_server;
    if (all.empty() && found.of_the_generator > 0)
        return {"server_stalled", promise, CheckResult::Outcome::refused, 0,
                "nothing came while the generator stood still itself"};
    if (all.empty()) return none_of("server_stalled", promise, 0, "it answered all the time");
    const auto longest = std::ranges::max_element(all, {}, &Standstill::length);
    return {"server_stalled", promise, CheckResult::Outcome::failed, longest->length,
            fmt::format(
                "for {:.1f} s no client heard anything, from second {:.0f} on{}", longest->length,
                longest->from,
                all.size() == 1 ? std::string() : fmt::format("; {} times in all", all.size()))};
}

}  // namespace pulsegate::load
