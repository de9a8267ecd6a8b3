#include "loadgen/lab/capacity_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace pulsegate::load {

namespace {

/// If the first trials are all refused, so many are enough to give up.
constexpr unsigned first_refusals = 3;

}  // namespace

/// A refused trial says nothing about the server, so it only counts if no other trial was judged.
TrialOutcome CapacitySearch::Level::opinion() const {
    if (held + broke == 0) return TrialOutcome::refused;
    return held > broke ? TrialOutcome::held : TrialOutcome::broke;
}

CapacitySearch::Levels::const_iterator CapacitySearch::upper() const {
    return std::ranges::find_if(
        levels_, [](const auto& level) { return level.second.opinion() != TrialOutcome::held; });
}

CapacitySearch::Levels::const_iterator CapacitySearch::lower() const {
    const auto high = upper();
    return high == levels_.begin() ? levels_.end() : std::prev(high);
}

CapacitySearch::Levels::const_iterator CapacitySearch::broken() const {
    return std::ranges::find_if(
        levels_, [](const auto& level) { return level.second.opinion() == TrialOutcome::broke; });
}

/// The scale whose only trial was refused. Something else on the machine may have been in the way
/// of that trial alone.
std::optional<double> CapacitySearch::refused_once() const {
    for (const auto& [scale, level] : levels_)
        if (level.refused == 1 && level.trials() == 1) return scale;
    return {};
}

void CapacitySearch::tell(double scale, TrialOutcome outcome) {
    ++trials_;
    Level& level = levels_[scale];
    switch (outcome) {
        case TrialOutcome::held: ++level.held; break;
        case TrialOutcome::broke: ++level.broke; break;
        case TrialOutcome::refused: ++level.refused; break;
    }
}

std::optional<double> CapacitySearch::next() const {
    if (trials_ >= settings_.most_trials || hopeless()) return {};
    if (const auto scale = refused_once()) return scale;
    if (const auto scale = untried()) return scale;
    return repeat();
}

/// The next scale that was not tried. Nothing if the edge is known as precisely as `resolution`
/// asks, or if the largest or smallest scale was tried.
std::optional<double> CapacitySearch::untried() const {
    if (levels_.empty()) return settings_.first;
    const auto high = upper(), low = lower();
    if (high == levels_.end()) {
        if (low->first < settings_.most)
            return std::min(low->first * settings_.factor, settings_.most);
    } else if (low == levels_.end()) {
        if (high->first > settings_.least)
            return std::max(high->first / settings_.factor, settings_.least);
    } else if (high->first / low->first > 1 + settings_.resolution) {
        return std::sqrt(high->first * low->first);
    }
    return {};
}

/// True if the generator was the bottleneck at all scales, even at low ones: something else is in
/// its way.
bool CapacitySearch::hopeless() const {
    const auto refused = [](const auto& level) {
        return level.second.opinion() == TrialOutcome::refused;
    };
    return trials_ >= std::max(settings_.repeats, first_refusals) &&
           std::ranges::all_of(levels_, refused);
}

/// The edge with fewer judged trials, to be repeated. If both have the same number, it is the lower
/// edge, because it matters most that the lower edge holds. An edge that is refused again and again
/// is not repeated any more.
std::optional<double> CapacitySearch::repeat() const {
    const auto high = upper(), low = lower();
    const auto judged = [&](Levels::const_iterator level) {
        const bool is_done = level == levels_.end() || level->second.refused >= settings_.repeats;
        return is_done ? settings_.repeats : level->second.held + level->second.broke;
    };
    const auto fewer = judged(high) < judged(low) ? high : low;
    if (judged(fewer) >= settings_.repeats) return {};
    return fewer->first;
}

CapacitySearch::Verdict CapacitySearch::verdict() const {
    using Kind = Verdict::Kind;
    Verdict verdict;
    verdict.trials = trials_;
    for (const auto& [scale, level] : levels_) verdict.refused += level.refused;
    if (levels_.empty()) return verdict;
    const auto high = upper(), low = lower(), broke = broken();
    verdict.confidence = 1;
    if (broke != levels_.end()) verdict.breaks = broke->first;
    if (low != levels_.end()) {
        verdict.holds = low->first;
        verdict.confidence *= probability_of_majority(low->second.held, low->second.broke);
    }
    if (high == levels_.end()) {
        verdict.kind = Kind::unlimited;
    } else if (high->second.opinion() == TrialOutcome::refused) {
        verdict.kind = Kind::refused;
    } else {
        verdict.kind = low == levels_.end() ? Kind::nothing : Kind::found;
        verdict.confidence *= probability_of_majority(high->second.broke, high->second.held);
    }
    const bool open = verdict.kind == Kind::refused ? refused_once().has_value() && !hopeless()
                                                    : untried().has_value();
    if (open) verdict.kind = Kind::unfinished;
    return verdict;
}

// If every rate is equally likely before the first trial, the rate has a beta distribution
// afterwards. The probability that it is above one half is a sum of binomial coefficients.
double probability_of_majority(unsigned yes, unsigned no) {
    const unsigned all = yes + no + 1;
    double coefficient = 1, sum = 0;
    for (unsigned k = 0; k <= yes; ++k) {
        sum += coefficient;
        coefficient = coefficient * (all - k) / (k + 1);
    }
    return sum / std::pow(2.0, all);
}

}  // namespace pulsegate::load
