#include "server/session/state/packing.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/topic.h"
#include "server/session/terms/option_bits.h"

namespace pulsegate {

namespace {

const Subscription* subscription_of(const Session& session) {
    const SubscriptionList& all = session.state.subscriptions();
    return all.empty() ? nullptr : &all.front();
}

bool fits_names(const Session& session) {
    return session.user.name.size() <= PackedRecord::longest_name &&
           session.client.size() <= PackedRecord::longest_name;
}

bool fits_subscriptions(const SessionState& state) {
    if (state.subscription_count() == 0) return true;
    const auto filter = state.subscriptions().front().filter->text();
    return state.subscription_count() == 1 && !has_wildcard(filter) && !shared_filter(filter);
}

bool fits_queue(const Exchanges& exchanges) {
    if (!exchanges.has_only_queue()) return false;
    const Outbox& outbox = exchanges.outbox();
    const auto fits = [](const QueuedMessage& each) {
        return each.is_stored && !each.has_details();
    };
    return outbox.queued() <= PackedRecord::most_messages &&
           std::ranges::all_of(outbox.queue(), fits);
}

}  // namespace

bool fits_record(const Session& session) {
    const bool is_at_rest = !session.link && !session.awaits_connack && !session.aliases &&
                            !session.authorization && !session.replay && !session.state.will();
    const bool is_away = session.expiry_timer && session.expiry_timer->position == 0;
    return is_at_rest && is_away && !session.is_inbox() && fits_names(session) &&
           fits_subscriptions(session.state) && fits_queue(session.state.exchanges());
}

PackedRecord* pack(const Session& session) {
    const Exchanges& exchanges = session.state.exchanges();
    std::vector<PackedMessage> messages;
    for (const QueuedMessage& each : exchanges.outbox().queue())
        messages.push_back({each, each.expires()});
    const Subscription* const subscription = subscription_of(session);
    const auto filter = subscription ? subscription->filter->text() : std::string_view();
    auto* const record = PackedRecord::make({session.user.name, session.client, filter}, messages,
                                            session.expiry_timer->ends);
    record->device_since = session.since;
    record->owner = session.state.owner;
    record->expiry = session.state.expiry();
    record->last_packet_id = exchanges.last_packet_id();
    record->ack_time = session.state.ack_time;
    record->version = session.terms.version;
    if (subscription) record->identifier = subscription->identifier;
    if (subscription) record->options = option_bits(subscription->options);
    return record;
}

void unpack(const PackedRecord& record, Session& session, Outbox::Totals& totals) {
    session.since = record.device_since;
    session.terms.version = record.version;
    session.state.owner = record.owner;
    session.state.set_expiry(record.expiry);
    session.state.ack_time = record.ack_time;
    Exchanges& exchanges = session.state.exchanges();
    exchanges.begin_after(record.last_packet_id);
    Queue messages;
    for (std::size_t i = 0; i < record.messages().size(); ++i)
        messages.emplace_back(record.messages()[i],
                              record.expiries().empty() ? 0 : record.expiries()[i]);
    if (!messages.empty()) exchanges.open_outbox(totals).enqueue(std::move(messages));
}

}  // namespace pulsegate
