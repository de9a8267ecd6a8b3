#include "server/session/sending/unconfirmed_presence.h"

#include <algorithm>

#include "server/session/users/presence.h"

namespace pulsegate {

namespace {

/// Messages that were sent before this time have arrived. It is at least ten seconds before the
/// last packet, because a client with a short limit of silence may have a slow connection.
Millis arrived_until(Millis last_packet, Millis limit) {
    constexpr Millis least = 10'000;
    return last_packet - std::max(limit, least);
}

}  // namespace

/// Notes a page. Sessions that end with their connection are left out, because they are told
/// everything again anyway.
void UnconfirmedPresence::sent(const Session& session, std::uint64_t since, Millis now) {
    if (session.state.expiry() == 0) return;
    Pages& pages = pages_.try_emplace(&session, Pages{since, now}).first->second;
    const Link& link = *session.link;
    const bool have_arrived = pages.at < arrived_until(link.last_packet(), link.limit());
    pages.since = have_arrived ? since : std::min(pages.since, since);
    pages.at = now;
}

/// Changes are sent soon after they happen, so the version at the time `arrived` bounds the
/// unconfirmed ones. While the store takes nothing, versions stay behind the clock.
std::uint64_t UnconfirmedPresence::take(const Session& session, Millis last_packet, Millis limit,
                                        Millis now) {
    const Millis arrived = arrived_until(last_packet, limit);
    std::uint64_t since = version_by_clock(no_later_than(arrived, now));
    if (since > 0) --since;
    const auto pages = pages_.find(&session);
    if (pages == pages_.end()) return since;
    if (pages->second.at >= arrived) since = std::min(since, pages->second.since);
    pages_.erase(pages);
    return since;
}

}  // namespace pulsegate
