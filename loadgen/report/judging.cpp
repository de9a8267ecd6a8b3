#include "loadgen/report/judging.h"

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::load {

bool is_pulsegate(const Evidence& seen) {
    return seen.record.server.seems_to_be_pulsegate() || seen[Count::presence_changes] > 0 ||
           seen[Count::presence_asked] > 0;
}

CheckResult skipped(const char* name, std::string promise, std::string why) {
    return {name, std::move(promise), CheckResult::Outcome::skipped, 0, std::move(why)};
}

CheckResult none_of(const char* name, std::string promise, std::uint64_t count,
                    std::string detail) {
    return {name, std::move(promise),
            count == 0 ? CheckResult::Outcome::passed : CheckResult::Outcome::failed,
            static_cast<double>(count), std::move(detail)};
}

Enumeration& Enumeration::add(std::uint64_t count, std::string_view what) {
    if (count == 0) return *this;
    if (!text_.empty()) text_ += ", ";
    text_ += show_count(count);
    text_ += ' ';
    text_ += what;
    return *this;
}

Range<Duration> limits_of(const Scenario& scenario) {
    Range<Duration> limits;
    for (const auto& group : scenario.groups) {
        if (group.hostile != Hostile::none) continue;
        const Duration limit =
            scenario.limit != Duration::zero() ? scenario.limit : Duration(group.keepalive) * 3 / 2;
        if (limit == Duration::zero())
            continue;  // without a keepalive, the server closes no silent client
        limits.least = limits.most == Duration::zero() ? limit : std::min(limits.least, limit);
        limits.most = std::max(limits.most, limit);
    }
    return limits;
}

}  // namespace pulsegate::load
