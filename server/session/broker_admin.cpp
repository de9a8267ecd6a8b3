#include "server/session/broker_admin.h"

#include <utility>

#include "server/session/client_description.h"
#include "server/session/client_search.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/durable/shard_context.h"
#include "server/session/inbox_access.h"
#include "server/session/life/evictions.h"
#include "server/session/requests/delayed_publishing.h"
#include "server/session/requests/publishing.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/users/history.h"
#include "server/session/users/presence.h"

namespace pulsegate {

BrokerAdmin::BrokerAdmin(const ShardContext& context, const Tables& tables,
                         const DeliveryParts& delivery, Publishing& publishing,
                         DelayedPublishing& delayed, Evictions& evictions)
    : receipts_(context.receipts),
      journal_(context.journal),
      tracer_(context.tracer),
      history_(context.history),
      presence_(tables.presence),
      sessions_(tables.sessions),
      retained_(tables.retained),
      packets_(delivery.packets),
      inboxes_(delivery.inboxes),
      rooms_(delivery.rooms),
      room_logs_(delivery.room_logs),
      publishing_(publishing),
      delayed_(delayed),
      evictions_(evictions) {}

void BrokerAdmin::publish(Message message, OnPublished published, Millis now) {
    publishing_.publish(std::move(message), std::move(published), now);
}

Evicted BrokerAdmin::evict(const Eviction& eviction, Millis now) {
    return evictions_.evict(eviction, now);
}

std::size_t BrokerAdmin::drop_taken(const DelayedByClients& which) {
    return delayed_.drop_taken(which);
}

void BrokerAdmin::when_stored(OnPublished stored) {
    thread_.assert_here();
    PendingReceipt receipt(receipts_);
    if (journal_.is_on()) journal_.await(receipt.part());
    receipts_.report(receipt.close(), {}, std::move(stored));
}

void BrokerAdmin::erase(Retained::Erasure& erasure, Millis now) {
    thread_.assert_here();
    retained_.erase(erasure, now, [&](std::string_view topic) {
        if (journal_.stores_retained())
            journal_.add(DropRetained{erasure.stamp, std::string(topic)});
    });
}

std::optional<std::string> BrokerAdmin::describe(std::string_view name, Millis now) const {
    thread_.assert_here();
    std::optional<std::string> description;
    presence_.show(name, [&](const User& user) {
        if (user.is_known()) description = to_json(user, now, wall_now());
    });
    return description;
}

ClientDescriptions BrokerAdmin::clients(std::string_view user, const std::set<SessionId>& known,
                                        std::size_t most, Millis now) {
    thread_.assert_here();
    User* const found = presence_.find(user);
    if (!found) return {};
    return ClientDescriber(room_logs_, packets_, now).some(*found, known, most);
}

ClientDescriptions BrokerAdmin::client(std::string_view user, std::string_view client, Millis now) {
    thread_.assert_here();
    const User* const known = presence_.find(user);
    Session* const session = known ? sessions_.find(*known, client) : nullptr;
    if (!session) return {};
    return ClientDescriber(room_logs_, packets_, now).one(*session);
}

ClientsFound BrokerAdmin::clients(const ClientFilter& filter, ClientPosition after,
                                  std::size_t most, Millis now) {
    thread_.assert_here();
    const ClientDescriber describer(room_logs_, packets_, now);
    return ClientSearch(presence_, describer, filter, most).some(after);
}

ClientsFound BrokerAdmin::clients_of(std::string_view user, const ClientFilter& filter,
                                     SessionId after, std::size_t most, Millis now) {
    thread_.assert_here();
    User* const found = presence_.find(user);
    if (!found) return {};
    const ClientDescriber describer(room_logs_, packets_, now);
    return ClientSearch(presence_, describer, filter, most).some_of(*found, after);
}

InboxView BrokerAdmin::inbox(std::string_view user, InboxPosition after, std::size_t most,
                             std::size_t most_bytes, Millis now) {
    thread_.assert_here();
    const User* const found = presence_.find(user);
    return found ? InboxAccess::look(sessions_, *found, after, most, most_bytes, now) : InboxView();
}

InboxDropped BrokerAdmin::drop_inbox(std::string_view user, Millis now) {
    thread_.assert_here();
    User* const found = presence_.find(user);
    return found ? InboxAccess(packets_, inboxes_).drop_some(*found, now) : InboxDropped();
}

bool BrokerAdmin::forget_user(std::string_view user) {
    thread_.assert_here();
    history_.forget(user);
    if (!presence_.forget_now(user)) return false;
    if (journal_.is_on()) journal_.add(DropUser{std::string(user)});
    return true;
}

}  // namespace pulsegate
