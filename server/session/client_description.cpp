#include "server/session/client_description.h"

#include "server/routing/router.h"
#include "server/session/room_logs.h"
#include "server/session/session.h"

namespace pulsegate {

namespace {

ClientDescription describe(const Session& session, RoomLogs& rooms, Millis now) {
    ClientDescription description{.client = session.client, .queued = rooms.missed(session, now)};
    if (session.link) {
        description.peer = session.link->peer();
        description.version = session.terms.version;
    }
    if (const Outbox* outbox = session.state.exchanges().outbox()) {
        description.queued += outbox->queued();
        description.queued_bytes = outbox->queued_bytes();
        description.in_flight = outbox->in_flight() + outbox->interrupted();
    }
    description.subscriptions = session.state.subscription_count();
    description.expiry = session.state.expiry();
    return description;
}

}  // namespace

ClientDescriptions describe_clients(const User& user, RoomLogs& rooms, std::size_t most,
                                    Millis now) {
    ClientDescriptions all;
    for (const Device& device : user.devices) {
        const auto& session = static_cast<const Session&>(device);
        if (session.is_inbox()) continue;
        if (all.clients.size() == most) {
            all.more = true;
            break;
        }
        all.clients.push_back(describe(session, rooms, now));
    }
    return all;
}

ClientDescriptions describe_client(const Session& session, RoomLogs& rooms, Millis now) {
    ClientDescription one = describe(session, rooms, now);
    for (const Subscription& subscription : session.state.subscriptions())
        one.filters.emplace_back(subscription.filter->text(), subscription.options.qos);
    ClientDescriptions all;
    all.clients.push_back(std::move(one));
    return all;
}

}  // namespace pulsegate
