#include "server/cluster/rules/judge.h"

#include <algorithm>
#include <string_view>

#include "server/cluster/rules/incarnation.h"
#include "server/cluster/rules/succession.h"

namespace pulsegate {

void Judge::hear(Millis now, const std::vector<Beat>& beats) {
    const bool counts = last_answer_ != never && !is_first_lease(now);
    const Millis gap = counts ? std::min(now - last_answer_, pace_.longest_gap()) : 0;
    last_answer_ = now;
    std::map<std::string, Watched> heard;
    for (const Beat& beat : beats) {
        if (beat.incarnation == self_) continue;
        const auto known = others_.find(beat.incarnation);
        const Watched unknown{.since = has_polled_ ? now : watched_since_,
                              .is_senior = !has_polled_ && beat.judged > 0};
        Watched watched = known == others_.end() ? unknown : known->second;
        if (known != others_.end() && beat.judged == known->second.last.judged) {
            watched.stands += gap;
            watched.polls += counts;
        } else {
            watched.has_beaten = known != others_.end();
            watched.stands = 0;
            watched.polls = 0;
        }
        watched.last = beat;
        heard.emplace(beat.incarnation, std::move(watched));
    }
    others_ = std::move(heard);
    has_polled_ = true;
}

void Judge::begin_run(Millis now) {
    silent_until_ = now + pace_.lease;
    last_answer_ = never;
    for (auto& [incarnation, watched] : others_) {
        watched.stands = 0;
        watched.polls = 0;
    }
}

bool Judge::was_silent(const std::vector<Beat>& beats) const {
    return std::any_of(beats.begin(), beats.end(), [&](const Beat& beat) {
        if (beat.incarnation == self_) return beat.is_condemned;
        const auto known = others_.find(beat.incarnation);
        const std::uint64_t before = known == others_.end() ? 0 : known->second.last.counted;
        return beat.counted > before + pace_.missed_beats();
    });
}

Millis Judge::standstill(const std::string& incarnation) const {
    const auto found = others_.find(incarnation);
    return found == others_.end() ? 0 : found->second.stands;
}

bool Judge::is_dead(const Beat& beat, bool is_process_gone) const {
    if (beat.is_condemned) return true;
    const auto found = others_.find(beat.incarnation);
    if (found == others_.end()) return false;
    const Watched& watched = found->second;
    if (is_process_gone && watched.stands >= pace_.short_lease()) return true;
    // The polls count, too. A slow judge sends few heartbeats in a lease, and `was_silent` of the
    // condemned node counts these.
    return watched.stands >= pace_.lease && watched.polls >= polls_in_lease();
}

bool Judge::may_condemn_soon() const {
    return std::any_of(others_.begin(), others_.end(), [&](const auto& other) {
        return !other.second.last.is_condemned && other.second.polls + 2 >= polls_in_lease();
    });
}

std::uint64_t Judge::polls_in_lease() const {
    return static_cast<std::uint64_t>(pace_.lease / pace_.beat) + 1;
}

void Judge::note_condemned(const std::string& incarnation) {
    const auto found = others_.find(incarnation);
    if (found != others_.end()) found->second.last.is_condemned = true;
}

bool Judge::has_heard_all(Millis now) const {
    if (now >= watched_since_ + pace_.lease) return true;
    return std::all_of(others_.begin(), others_.end(), [](const auto& other) {
        return other.second.has_beaten || other.second.last.is_condemned;
    });
}

std::size_t Judge::claimants_before(Millis free_since) const {
    const std::string_view name = node_name_of(self_);
    std::size_t seniors = 0;
    std::vector<std::string> rivals;
    for (const auto& [incarnation, watched] : others_) {
        if (watched.last.is_condemned || node_name_of(incarnation) == name) continue;
        seniors += watched.is_senior;
        if (!had_just_joined(watched.since, free_since))
            rivals.emplace_back(node_name_of(incarnation));
    }
    if (had_just_joined(watched_since_, free_since)) return seniors;
    // One node owns all partitions, so only the succession of the first partition counts.
    return place_in_succession(0, name, rivals);
}

/// Two leases, because one may have passed before the node's former incarnation was condemned.
bool Judge::had_just_joined(Millis since, Millis now) const {
    return now < since + 2 * pace_.lease;
}

}  // namespace pulsegate
