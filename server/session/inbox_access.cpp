#include "server/session/inbox_access.h"

#include <algorithm>
#include <utility>

#include "server/session/delivery/inboxes.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session.h"
#include "server/session/state/session_table.h"
#include "server/session/users/presence.h"

namespace pulsegate {

namespace {

void add_queued(const Session& session, std::vector<InboxEntry>& all) {
    for (const QueuedMessage& each : session.state.exchanges().outbox().queue())
        if (session.is_inbox() || each.is_from_inbox())
            all.push_back({each.stamp, each.cost,
                           each.is_exactly_once ? QoS::exactly_once : QoS::at_least_once,
                           each.expires(), false, each.has_body() ? each.body->message : nullptr});
}

void add_under_way(const Session& session, std::vector<InboxEntry>& all) {
    session.state.exchanges().outbox().for_each_sent_from_inbox([&](const Delivery& each) {
        all.push_back({each.message->stamp, each.cost(), each.qos, each.message->expires, true,
                       each.message});
    });
}

/// The index of the first message after the position.
std::size_t place_behind(const std::vector<InboxEntry>& all, InboxPosition after) {
    const auto first = std::ranges::lower_bound(all, after.stamp, {}, &InboxEntry::stamp);
    const auto end = std::ranges::upper_bound(all, after.stamp, {}, &InboxEntry::stamp);
    const auto same = static_cast<std::size_t>(end - first);
    return static_cast<std::size_t>(first - all.begin()) +
           std::min<std::size_t>(after.of_same_stamp, same);
}

}  // namespace

InboxView InboxAccess::look(const SessionTable& sessions, const User& user, InboxPosition after,
                            std::size_t most, std::size_t most_bytes, Millis now) {
    InboxView view;
    std::vector<InboxEntry> all;
    for (const Device& device : user.devices) {
        const auto& session = static_cast<const Session&>(device);
        if (session.is_inbox() && session.expiry_timer)
            view.left = sessions.time_left(*session.expiry_timer, now);
        add_under_way(session, all);
        add_queued(session, all);
    }
    std::erase_if(all, [now](const InboxEntry& each) { return has_expired(each.expires, now); });
    std::ranges::stable_sort(all, {}, &InboxEntry::stamp);
    view.messages = all.size();
    if (!all.empty()) view.oldest = all.front().stamp;
    for (const InboxEntry& each : all) view.bytes += each.bytes;

    const std::size_t first = place_behind(all, after);
    std::size_t place = first;
    for (std::size_t bytes = 0; place < all.size() && view.page.size() < most; ++place) {
        bytes += all[place].bytes;
        if (bytes > most_bytes && !view.page.empty()) break;
        view.page.push_back(all[place]);
    }
    if (place == all.size() || view.page.empty()) return view;
    const Stamp last = view.page.back().stamp;
    const auto same = std::ranges::lower_bound(all, last, {}, &InboxEntry::stamp);
    view.next = InboxPosition{last, place - static_cast<std::size_t>(same - all.begin())};
    return view;
}

InboxDropped InboxAccess::drop_some(User& user, Millis now) {
    constexpr std::size_t messages_a_turn = 4096;
    InboxDropped dropped;
    bool has_inbox = false;
    for (Device& device : user.devices) {
        auto& session = static_cast<Session&>(device);
        has_inbox |= session.is_inbox();
        dropped.messages += drop(session, messages_a_turn - dropped.messages);
        session.state.exchanges().outbox().for_each_sent_from_inbox(
            [&](const Delivery&) { ++dropped.under_way; });
        if (dropped.messages >= messages_a_turn) {
            dropped.more = true;
            return dropped;
        }
    }
    if (has_inbox) inboxes_.end_if_done(user, now);
    return dropped;
}

/// Drops waiting messages. If the device is away, messages that would be sent again are dropped,
/// too.
std::size_t InboxAccess::drop(Session& session, std::size_t most) {
    Exchanges& exchanges = session.state.exchanges();
    const auto is_dropped = [&](const QueuedMessage& each) {
        return (session.is_inbox() || each.is_from_inbox()) && most > 0 && most-- > 0;
    };
    const bool is_away = !session.is_inbox() && !session.link;
    const Queue taken = exchanges.change_outbox([&](Outbox& outbox) {
        return is_away ? outbox.take_from_inbox(false) : outbox.take_queued_if(is_dropped);
    });
    for (const QueuedMessage& each : taken) packets_.queues().drop(session.state.owner, each);
    return taken.size();
}

}  // namespace pulsegate
