#include "loadgen/swarm/deliveries.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/truth/mixing.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// The clocks of workers on several machines differ by less than this.
constexpr Duration clock_margin = std::chrono::milliseconds(100);

/// The user property in which a Pulsegate names the sender of a chat message.
constexpr std::string_view sender_property = "from";

/// Is it no property of the messages that the generator sends? Some servers add user properties or
/// an expiry.
bool is_invented(const PropertyValue& property) {
    return property.id != Property::user_property &&
           property.id != Property::message_expiry_interval;
}

}  // namespace

std::size_t Deliveries::KeyHash::operator()(const Key& key) const {
    return mix(std::uint64_t{key.receiver} << 32 | key.sender, key.slot);
}

Deliveries::Deliveries(SwarmState& state, const Profiles& profiles)
    : state_(state), profiles_(profiles), members_(state.roster.rooms()) {
    for (SwarmClient& client : state.clients)
        for (const std::uint32_t room : state.roster.rooms_of(client.number()))
            members_[room].push_back(&client);
}

// -- what arrives --

std::optional<Message> Deliveries::message_in(const Publish& publish) const {
    auto message = read_message(as_bytes(publish.payload));
    const bool ours = message && message->run == state_.assignment.run &&
                      message->sender < state_.roster.clients() &&
                      message->slot < state_.roster.contacts(message->sender);
    return ours ? message : std::nullopt;
}

void Deliveries::received(SwarmClient& client, const Publish& publish, Time now) {
    const auto message = message_in(publish);
    if (!message) return damaged(client, publish, now);

    const Roster& roster = state_.roster;
    const Key key{client.number(), message->sender, message->slot};
    auto flow = flows_.find(key);
    if (flow == flows_.end()) {
        if (!belongs(client, *message)) return misdirected(client, *message, now);
        flow = flows_.emplace(key, ReceivedFlow(client.attendance.stay_at_begin())).first;
    }

    // A damaged message still counts as arrived, so that it is not counted as lost as well.
    const auto size = roster.message_size(message->sender, message->slot, message->sequence);
    if (publish.payload.size() != size || !is_whole(*message, as_bytes(publish.payload)))
        damaged(client, publish, now);
    else
        check_header(client, *message, publish, now);

    const Time planned = state_.local(message->planned);
    Measurements& second = state_.at(planned);
    const auto arrival =
        flow->second.arrive(message->sequence, publish.qos, publish.dup, client.attendance.stay(),
                            client.attendance.settled(), client.read_proof);
    const bool is_first =
        arrival == ReceivedFlow::Arrival::first || arrival == ReceivedFlow::Arrival::behind;
    if (is_first) {
        check_first(client, *message, publish, now);
        check_delay(client, *message, now);
    }
    switch (arrival) {
        case ReceivedFlow::Arrival::behind:
            second.add(Count::messages_reordered);
            state_.give_example(
                fmt::format("message {} from client {} came to {} behind a later "
                            "one",
                            message->sequence, message->sender, who(client)));
            [[fallthrough]];
        case ReceivedFlow::Arrival::first:
            second.add(Count::messages_received);
            if (state_.crosses_nodes(message->sender, client.number()))
                second.add(Count::messages_crossed);
            second.add(planned < client.online_since ? Timing::message_return : Timing::message,
                       std::max(now - planned, Duration::zero()));
            return;
        case ReceivedFlow::Arrival::again_allowed: return;
        case ReceivedFlow::Arrival::again_acknowledged:
            if (!client.read_proof.holds(state_.broken())) return;
            break;
        case ReceivedFlow::Arrival::again: break;
    }
    if (publish.qos == QoS::at_least_once && roster.group(message->sender).kept_session)
        return flow->second.remember_again(message->sequence);
    second.add(publish.qos == QoS::at_least_once ? Count::messages_repeated
                                                 : Count::messages_repeated_qos2);
    state_.give_example(fmt::format("message {} from client {} came to {} again, at QoS {}{}",
                                    message->sequence, message->sender, who(client),
                                    static_cast<int>(publish.qos),
                                    arrival == ReceivedFlow::Arrival::again_acknowledged
                                        ? ", although the server had read its PUBACK"
                                        : ""));
}

// MQTT-3.3.1-1: a PUBLISH that is sent again must have DUP.
void Deliveries::received_again(SwarmClient& client, const Publish& publish, bool is_same,
                                Time now) {
    const auto message = message_in(publish);
    if (!message || !is_same || !state_.roster.contact(message->sender, message->slot))
        return damaged(client, publish, now);
    check_header(client, *message, publish, now);
    if (publish.dup) return;
    state_.at(now).add(Count::messages_repeated_qos2);
    state_.give_example(
        fmt::format("message {} from client {} came to {} again at QoS 2, before its PUBREL",
                    message->sequence, message->sender, who(client)));
}

std::optional<QoS> Deliveries::granted(const SwarmClient& client,
                                       const Roster::Contact& contact) const {
    if (!contact.is_room) return client.granted;
    const auto which = state_.roster.which_room(client.number(), contact.number);
    if (!which || *which >= client.room_grants.size()) return {};
    return client.room_grants[*which];
}

bool Deliveries::belongs(const SwarmClient& client, const Message& message) const {
    const auto contact = state_.roster.contact(message.sender, message.slot);
    if (!contact || contact->number != message.receiver) return false;
    if (!contact->is_room) return message.receiver == client.number();
    return std::ranges::find(members_[contact->number], &client) != members_[contact->number].end();
}

void Deliveries::misdirected(const SwarmClient& client, const Message& message, Time now) {
    state_.at(now).add(Count::messages_misdirected);
    state_.give_example(fmt::format("message {} from client {} came to {} instead of {}",
                                    message.sequence, message.sender, who(client),
                                    message.receiver));
}

void Deliveries::damaged(const SwarmClient& client, const Publish& publish, Time now) {
    state_.at(now).add(Count::messages_damaged);
    state_.give_example(fmt::format("{} received {} bytes in topic {} that nobody sent like this",
                                    who(client), publish.payload.size(), publish.topic));
}

/// MQTT-3.8.4-8: a message arrives at the lower one of the sent and the granted QoS. It may come
/// before the SUBACK. MQTT-3.3.1-9: RETAIN is 0 for a subscription that existed before.
void Deliveries::check_header(const SwarmClient& client, const Message& message,
                              const Publish& publish, Time now) {
    const auto contact = *state_.roster.contact(message.sender, message.slot);
    const auto grant = granted(client, contact);
    const QoS qos = std::min(contact.qos, grant.value_or(publish.qos));
    publish.properties.for_each(
        [&](const PropertyValue& property) { check_property(client, message, property, now); });
    if (publish.qos == qos && !publish.retain && state_.is_topic_of(contact, publish.topic)) return;
    state_.at(now).add(Count::messages_damaged);
    state_.give_example(fmt::format(
        "message {} from client {} came to {} in topic {} at QoS {}{}; right is {} at QoS {}",
        message.sequence, message.sender, who(client), publish.topic, static_cast<int>(publish.qos),
        publish.retain ? " with RETAIN" : "",
        contact.is_room ? state_.room_topic(contact.number) : state_.client_topic(contact.number),
        static_cast<int>(qos)));
}

// A Pulsegate names the sender in chat topics only. The generator's topics are no chat topics, so
// its messages need not have the property. If they have it, it must be right.
void Deliveries::check_property(const SwarmClient& client, const Message& message,
                                const PropertyValue& property, Time now) {
    if (is_invented(property)) {
        state_.at(now).add(Count::messages_damaged);
        state_.give_example(
            fmt::format("message {} from client {} came to {} with a property that "
                        "nobody sent: {}",
                        message.sequence, message.sender, who(client), name(property.id)));
    }
    if (property.id != Property::user_property || property.key != sender_property) return;
    if (property.text == profiles_.presence_name(message.sender)) return;
    state_.at(now).add(Count::messages_forged);
    state_.give_example(fmt::format("message {} from client {} came to {} as a message from {}",
                                    message.sequence, message.sender, who(client), property.text));
}

// MQTT-3.3.1-1: only what is sent again has DUP, and MQTT-4.4.0-1: it is sent again on a later
// connection of the same session. What was sent after this connection began was never sent before.
void Deliveries::check_first(const SwarmClient& client, const Message& message,
                             const Publish& publish, Time now) {
    const bool may_come_again =
        state_.resumed(client) &&
        (!client.online() || state_.local(message.planned) <= client.online_since + clock_margin);
    if (!publish.dup || may_come_again) return;
    state_.at(now).add(Count::messages_damaged);
    state_.give_example(fmt::format("message {} from client {} came to {} with DUP the first time",
                                    message.sequence, message.sender, who(client)));
}

// A sender that keeps its session may have sent the message again after it was away.
void Deliveries::check_delay(const SwarmClient& client, const Message& message, Time now) {
    const Time planned = state_.local(message.planned);
    const bool was_there = client.online() && planned >= client.online_since;
    const bool may_be_old = state_.roster.group(message.sender).kept_session;
    const Duration took = state_.loop.seen_until() - state_.own_delay(now) - planned;
    if (!was_there || may_be_old || took <= state_.late_after()) return;
    state_.at(now).add(Count::messages_late);
    state_.give_example(
        fmt::format("message {} from client {} came to {} {} after its planned "
                    "time",
                    message.sequence, message.sender, who(client), show(took)));
}

// -- what should have arrived --

void Deliveries::judge(Time now) {
    for (const FlowTotal& total : totals_) {
        const auto contact = state_.roster.contact(total.sender, total.slot);
        if (!contact) continue;
        if (!contact->is_room) {
            if (state_.owns(contact->number))
                judge(state_.client(contact->number), *contact, total, now);
            continue;
        }
        for (SwarmClient* member : members_[contact->number])
            if (state_.roster.same_server(member->number(), total.sender))
                judge(*member, *contact, total, now);
    }
    totals_.clear();
    count_unreleased(now);
}

// Deliveries that began shortly before the end may be open only because of the end. Deliveries from
// before the present connection are released on it, so the client needs some time on it.
void Deliveries::count_unreleased(Time now) {
    const Duration patience = std::max(state_.scenario().drain, state_.scenario().ping_within);
    const Time due = state_.loop.seen_until() - patience;
    for (const SwarmClient& client : state_.clients) {
        if (!client.online() || client.online_since >= due) continue;
        const std::size_t open = client.mqtt.unreleased(due);
        if (open == 0) continue;
        state_.at(now).add(Count::unreleased, open);
        state_.give_example(
            fmt::format("{} has deliveries at QoS 2 without a PUBREL: {}", who(client), open));
    }
}

void Deliveries::judge(SwarmClient& receiver, const Roster::Contact& contact,
                       const FlowTotal& total, Time now) {
    const auto found = flows_.find(Key{receiver.number(), total.sender, total.slot});
    const ReceivedFlow nothing(receiver.attendance.stay_at_begin());
    const ReceivedFlow& flow = found == flows_.end() ? nothing : found->second;
    const bool kept =
        state_.group(receiver).kept_session && !receiver.session_expired &&
        std::min(contact.qos, granted(receiver, contact).value_or(contact.qos)) > QoS::at_most_once;
    const Duration spread =
        state_.assignment.target.cluster ? ReceivedFlow::time_to_spread : clock_margin;
    const auto outcome = flow.judge(total, receiver.attendance, kept, spread);

    Measurements& sum = state_.at(now);
    sum.add(Count::messages_expected, outcome.received + outcome.lost);
    sum.add(Count::messages_lost, outcome.lost);
    if (state_.crosses_nodes(total.sender, receiver.number()))
        sum.add(Count::messages_lost_crossing, outcome.lost);
    sum.add(Count::messages_in_doubt, outcome.in_doubt);
    sum.add(Count::messages_missed_away, outcome.missed_away);
    sum.add(Count::messages_missed_closed, outcome.missed_closed);
    sum.add(Count::messages_excused, outcome.excused);
    sum.add(Count::messages_repeated, outcome.repeated);
    sum.add(Count::messages_damaged, outcome.invented);
    if (outcome.repeated > 0)
        state_.give_example(fmt::format("{} messages from client {} came to {} again, at QoS 1",
                                        outcome.repeated, total.sender, who(receiver)));
    if (outcome.lost > 0)
        state_.give_example(
            fmt::format("{} of {} messages from client {} to {} at QoS {} were "
                        "lost, message {} first",
                        outcome.lost, total.sent, total.sender, who(receiver),
                        static_cast<int>(contact.qos), outcome.example));
}

}  // namespace pulsegate::load
