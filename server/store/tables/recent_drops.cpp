#include "server/store/tables/recent_drops.h"

#include <algorithm>
#include <utility>

#include "server/base/hash.h"

namespace pulsegate {

bool RecentDrops::add(std::string_view topic, Stamp stamp) {
    if (added_.size() + recent_.size() + older_.size() >= most_) return false;
    Stamp& latest = added_[keyed_hash(topic)];
    latest = std::max(latest, stamp);
    return true;
}

bool RecentDrops::is_dropped(std::string_view topic, Stamp stamp) const {
    if (added_.empty() && !awaits_units()) return false;
    const std::uint64_t hash = keyed_hash(topic);
    return std::ranges::any_of(std::initializer_list<const Drops*>{&added_, &recent_, &older_},
                               [&](const Drops* drops) {
                                   const auto found = drops->find(hash);
                                   return found != drops->end() && stamp <= found->second;
                               });
}

void RecentDrops::committed() {
    if (added_.empty()) return;
    for (const auto& [hash, stamp] : added_) {
        Stamp& latest = recent_[hash];
        latest = std::max(latest, stamp);
    }
    added_.clear();
    has_some_ = true;
}

/// A source that submits refused operations again begins a new generation. It may do so in the
/// middle of a round, so this unit does not show that the round's operations have come.
void RecentDrops::heard(std::uint32_t source, std::uint32_t generation) {
    if (source == 0 || source > sources_.size()) return;
    Source& from = sources_[source - 1];
    const bool is_next = generation == std::exchange(from.generation, generation);
    from.was_heard |= is_next;
}

/// `older_` was stamped before the last transaction of the previous ageing. Each source has
/// submitted a unit since then, so all older operations have arrived.
bool RecentDrops::caught_up() {
    if (sources_.empty() || !std::ranges::all_of(sources_, &Source::was_heard)) return false;
    for (Source& source : sources_) source.was_heard = false;
    older_ = std::exchange(recent_, {});
    has_some_ = !older_.empty();
    return true;
}

}  // namespace pulsegate
