#include "loadgen/report/series.h"

#include <algorithm>
#include <iterator>

namespace pulsegate::load {

namespace {

/// Some levels stand for the worst moment. For these, a longer stretch keeps the worst value.
double joined_level(Gauge gauge, const Stretch& before, const Stretch& later) {
    const double first = before.measured[gauge];
    const double second = later.measured[gauge];
    if (first < 0 || second < 0) return std::max(first, second);
    if (gauge == Gauge::server_loop_lag || gauge == Gauge::server_silence)
        return std::max(first, second);
    return (first * before.length + second * later.length) / (before.length + later.length);
}

template <class Levels>
Measurements only_levels(const Levels& levels) {
    Measurements measured;
    for (std::size_t gauge = 0; gauge < levels.size(); ++gauge)
        measured.set(static_cast<Gauge>(gauge), levels[gauge]);
    return measured;
}

}  // namespace

void join(Stretch& into, const Stretch& later) {
    Measurements sum = into.measured;
    sum.merge(later.measured);
    for (std::size_t at = 0; at < gauges_size; ++at) {
        const auto gauge = static_cast<Gauge>(at);
        sum.set(gauge, joined_level(gauge, into, later));
    }
    into.measured = std::move(sum);
    const auto end = std::max(into.second + into.length, later.second + later.length);
    into.second = std::min(into.second, later.second);
    into.length = end - into.second;
}

void Series::add(std::uint32_t second, const Measurements& measured, std::uint32_t source) {
    open_[second].merge(measured);
    level(second, measured, source);
    latest_ = std::max(latest_, second);
    settle();
}

void Series::level(std::uint32_t second, const Measurements& measured, std::uint32_t source) {
    auto& sources = levels_[second];
    const auto [at, is_new] = sources.try_emplace(source);
    if (is_new) at->second.fill(-1);
    for (std::size_t gauge = 0; gauge < gauges_size; ++gauge)
        if (const double value = measured[static_cast<Gauge>(gauge)]; value >= 0)
            at->second[gauge] = value;

    Measurements all;
    for (const auto& [from, levels] : sources) all.merge(only_levels(levels));
    for (std::size_t gauge = 0; gauge < gauges_size; ++gauge)
        open_[second].set(static_cast<Gauge>(gauge), all[static_cast<Gauge>(gauge)]);
}

void Series::settle() {
    while (open_.begin()->first + open_seconds < latest_) {
        levels_.erase(open_.begin()->first);
        auto oldest = open_.extract(open_.begin());
        put({oldest.key(), 1, std::move(oldest.mapped())});
    }
}

void Series::put(const Stretch& stretch) {
    const auto [at, is_new] = settled_.try_emplace(stretch.second / width_ * width_, stretch);
    if (!is_new) join(at->second, stretch);
    if (settled_.size() > most) widen();
}

void Series::widen() {
    width_ *= 2;
    auto narrow = std::move(settled_);
    settled_.clear();
    for (const auto& [second, stretch] : narrow) put(stretch);
}

std::vector<Stretch> Series::stretches() const {
    std::vector<Stretch> all;
    all.reserve(settled_.size() + open_.size());
    for (const auto& [second, stretch] : settled_) all.push_back(stretch);
    for (const auto& [second, measured] : open_) {
        const Stretch stretch{second, 1, measured};
        const bool shared = !all.empty() && all.back().second / width_ == second / width_;
        if (shared)
            join(all.back(), stretch);
        else
            all.push_back(stretch);
    }
    return all;
}

Measurements Series::recent(std::uint32_t first, std::uint32_t last) const {
    Stretch sum{first, 1, {}};
    for (auto at = open_.lower_bound(first); at != open_.end() && at->first <= last; ++at)
        join(sum, {at->first, 1, at->second});
    return std::move(sum.measured);
}

const Measurements& Series::at(std::uint32_t second) const {
    static const Measurements nothing;
    const auto found = open_.find(second);
    return found == open_.end() ? nothing : found->second;
}

std::vector<Stretch> whole_stretches(const std::vector<Stretch>& series, double from, double to) {
    std::vector<Stretch> stretches;
    std::ranges::copy_if(series, std::back_inserter(stretches), [&](const Stretch& stretch) {
        return stretch.second >= from && stretch.second + stretch.length <= to;
    });
    return stretches;
}

Measurements between(const std::vector<Stretch>& series, double from, double to) {
    Stretch sum;
    bool any = false;
    for (const auto& stretch : series) {
        if (stretch.second < from || stretch.second >= to) continue;
        if (any)
            join(sum, stretch);
        else
            sum = stretch;
        any = true;
    }
    return std::move(sum.measured);
}

}  // namespace pulsegate::load
