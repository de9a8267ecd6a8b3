#include "server/session/client_description.h"

#include "server/routing/router.h"
#include "server/session/session.h"

namespace pulsegate {

namespace {

ClientDescription describe(const Session& session) {
    ClientDescription description{.client = session.client};
    if (session.link) {
        description.peer = session.link->peer();
        description.version = session.terms.version;
    }
    if (const Outbox* outbox = session.state.exchanges().outbox()) {
        description.queued = outbox->queued();
        description.queued_bytes = outbox->queued_bytes();
        description.in_flight = outbox->in_flight() + outbox->interrupted();
    }
    description.subscriptions = session.state.subscription_count();
    description.expiry = session.state.expiry();
    return description;
}

void add_filters(ClientDescription& description, const Session& session) {
    for (const Subscription& subscription : session.state.subscriptions())
        description.filters.emplace_back(subscription.filter->text(), subscription.options.qos);
}

}  // namespace

ClientDescriptions describe_clients(const User& user, const std::optional<std::string>& client,
                                    std::size_t most) {
    ClientDescriptions all;
    for (const Device& device : user.devices) {
        const auto& session = static_cast<const Session&>(device);
        if (session.is_inbox() || (client && *client != session.client)) continue;
        if (all.clients.size() == most) {
            all.more = true;
            break;
        }
        all.clients.push_back(describe(session));
        if (client) add_filters(all.clients.back(), session);
    }
    return all;
}

}  // namespace pulsegate
