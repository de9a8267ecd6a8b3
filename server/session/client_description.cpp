#include "server/session/client_description.h"

#include <algorithm>

#include "server/routing/router.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session.h"
#include "server/session/users/presence_entry.h"

namespace pulsegate {

std::uint64_t ClientDescriber::work() const { return rooms_.work() + packets_.queues().work(); }

ClientDescription ClientDescriber::describe(const Session& session) const {
    ClientDescription description{.session = session.id,
                                  .user = session.user.name,
                                  .client = session.client,
                                  .queued = rooms_.missed(session, now_)};
    if (const Link* const link = session.link)
        description.connected = {link->peer(),          std::string(link->listener()),
                                 session.terms.version, session.since,
                                 link->last_packet(),   link->limit()};
    const Outbox& outbox = session.state.exchanges().outbox();
    description.queued += outbox.queued();
    description.queued_bytes = outbox.queued_bytes();
    description.in_flight = outbox.in_flight() + outbox.interrupted();
    description.subscriptions = session.state.subscription_count();
    description.expiry = session.state.expiry();
    return description;
}

ClientDescription ClientDescriber::describe(const PackedRecord& record) {
    return {.session = 0,
            .user = std::string(record.user()),
            .client = std::string(record.client()),
            .queued = record.messages().size(),
            .queued_bytes = record.queued_bytes(),
            .subscriptions = record.filter().empty() ? 0U : 1U,
            .expiry = record.expiry};
}

ClientDescriptions ClientDescriber::some(User& user, const std::set<SessionId>& known,
                                         std::size_t most) {
    constexpr std::size_t clients_a_turn = 100;
    constexpr std::uint64_t work_for_clients = 2048;  // half of a round's work
    const std::size_t most_here = std::min(most, clients_a_turn);
    const auto began_at = work();
    ClientDescriptions some;
    for (Device& device : user.devices) {
        auto& session = static_cast<Session&>(device);
        if (known.contains(session.id)) continue;
        packets_.queues().drop_expired(session, now_);
        if (session.is_inbox()) continue;
        if (some.clients.size() == most_here || work() - began_at > work_for_clients) {
            some.more = true;
            break;
        }
        some.clients.push_back(describe(session));
    }
    return some;
}

ClientDescriptions ClientDescriber::one(Session& session) {
    packets_.queues().drop_expired(session, now_);
    ClientDescriptions all;
    all.clients.push_back(describe(session));
    for (const Subscription& subscription : session.state.subscriptions())
        all.clients.back().filters.emplace_back(subscription.filter->text(),
                                                subscription.options.qos);
    return all;
}

}  // namespace pulsegate
