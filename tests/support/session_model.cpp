#include "tests/support/session_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "protocol/encode.h"
#include "server/base/hash.h"
#include "server/message.h"
#include "server/topics.h"

namespace pulsegate {

namespace {

template <class... Args>
[[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) {
    throw Broken(fmt::format(format, std::forward<Args>(args)...));
}

std::uint32_t sender(const Copy& copy) {
    return static_cast<std::uint32_t>(fingerprint(copy.note->user));
}

/// Who has sent it, on chat topics: the only property that a client can't set.
PropertyList sender_told(const BrokerSettings& settings, const Note& note) {
    PropertyList properties;
    if (is_chat_topic(note.topic)) properties.add_user(settings.sender_property, note.user);
    return properties;
}

std::size_t cost(const BrokerSettings& settings, const Copy& copy) {
    return Message{.topic = copy.note->topic,
                   .payload = copy.note->payload,
                   .properties = sender_told(settings, *copy.note).take()}
               .cost() +
           copy.identifiers.size() * sizeof(std::uint32_t);
}

std::vector<std::string_view> levels_of(std::string_view text) {
    std::vector<std::string_view> levels;
    for (auto slash = text.find('/'); slash != text.npos; slash = text.find('/')) {
        levels.push_back(text.substr(0, slash));
        text.remove_prefix(slash + 1);
    }
    levels.push_back(text);
    return levels;
}

/// `$share/group/filter`: the filter.
std::optional<std::string_view> filter_of_share(std::string_view filter) {
    if (!filter.starts_with("$share/")) return std::nullopt;
    filter.remove_prefix(7);
    return filter.substr(filter.find('/') + 1);
}

bool is_v5(const ModelSession& session) { return session.hello.version == Version::v5_0; }

bool same(const ModelSession& session, const Copy& owed, const Copy& got, std::string_view payload,
          std::string_view topic) {
    return owed.note->payload == payload && owed.note->topic == topic && owed.qos == got.qos &&
           owed.retain == got.retain &&
           (!is_v5(session) || owed.without_identifiers || owed.identifiers == got.identifiers);
}

bool has_id(const std::list<Copy>& copies, std::uint16_t id) {
    return std::any_of(copies.begin(), copies.end(),
                       [&](const Copy& copy) { return copy.packet_id == id; });
}

std::list<Copy>::iterator find_id(std::list<Copy>& copies, std::uint16_t id) {
    return std::find_if(copies.begin(), copies.end(),
                        [&](const Copy& copy) { return copy.packet_id == id; });
}

}  // namespace

bool selects(std::string_view filter, std::string_view topic) {
    const auto wanted = levels_of(filter);
    const auto levels = levels_of(topic);
    if (topic.starts_with('$') && (wanted[0] == "+" || wanted[0] == "#")) return false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == "#") return levels.size() >= i;  // "a/#" selects "a" too
        if (i == levels.size()) return false;
        if (wanted[i] != "+" && wanted[i] != levels[i]) return false;
    }
    return wanted.size() == levels.size();
}

ModelSession* SessionModel::find(const std::string& client) {
    const auto found = sessions_.find(client);
    return found == sessions_.end() ? nullptr : &found->second;
}

// -- sessions --

bool SessionModel::connect(const std::string& client, unsigned shard, const std::string& inbox,
                           const Hello& hello, Millis now) {
    ModelSession* session = find(client);
    const bool resumed = session && !hello.clean && session->hello.expiry > 0;
    if (session) {
        if (session->connected) interrupt(*session);
        // A client that reconnects before the delay has passed cancels its will; a will without a
        // delay was due when the old connection ended (MQTT 5.0, 3.1.3.2.2).
        if (resumed && session->will && session->will->delay > 0) session->will.reset();
        if (!resumed) {
            begin_end(*session);
            session->waiting.clear();
        }
        publish_will(*session, now);
        if (!resumed) destroy(client);
    }
    ModelSession& now_here = sessions_[client];
    now_here.client = client;
    now_here.shard = shard;
    now_here.inbox = inbox;
    now_here.hello = hello;
    now_here.connected = true;
    now_here.reads = true;
    now_here.window = std::min<std::size_t>(hello.receive_maximum, settings_.max_inflight);
    now_here.will = hello.will;
    now_here.to_release = now_here.released;
    now_here.on_the_wire.clear();
    return resumed;
}

/// The connection has ended, the session may continue.
void SessionModel::interrupt(ModelSession& session) {
    session.connected = false;
    session.due.clear();
    for (auto& [message, taken] : taken_)
        if (taken.holder == session.client) taken.live = false;
    for (std::list<Copy>* copies : {&session.to_resend, &session.unacknowledged})
        for (auto copy = copies->begin(); copy != copies->end();) {
            const auto next = std::next(copy);
            // A client that unsubscribed since completes exchanges in progress (MQTT 5.0, 3.10.4).
            if (is_for_shares(copy->note->topic) && copy->qos == QoS::at_least_once &&
                session.subscriptions.contains(share_of(session, *copy)))
                session.may_resend.splice(session.may_resend.end(), *copies, copy);
            copy = next;
        }
    // Messages that are sent again keep their order, and unacknowledged ones were sent first.
    session.to_resend.splice(session.to_resend.begin(), session.unacknowledged);
}

void SessionModel::end(const std::string& client, bool takes_will_back, Millis now) {
    ModelSession& session = *find(client);
    if (takes_will_back) session.will.reset();
    interrupt(session);
    if (session.hello.expiry == 0) {
        begin_end(session);
        publish_will(session, now);
        destroy(client);
        return;
    }
    if (session.will && session.will->delay == 0) publish_will(session, now);
    session.ends = now + Millis{session.hello.expiry} * 1000;
    session.will_due =
        session.will ? std::min(session.ends, now + Millis{session.will->delay} * 1000) : 0;
    session.away_since = ++events_;

    const auto quota = std::max<std::size_t>(settings_.persistent_session_quota / shards_, 1);
    if (disconnected(session.shard) <= quota) return;
    const ModelSession* oldest = &session;
    for (const auto& [name, other] : sessions_)
        if (!other.connected && other.shard == session.shard &&
            other.away_since < oldest->away_since)
            oldest = &other;
    end_disconnected(std::string(oldest->client), now);
}

void SessionModel::end_disconnected(const std::string& client, Millis now) {
    ModelSession& session = *find(client);
    begin_end(session);
    publish_will(session, now);
    destroy(client);
}

/// The session gets no new messages, not even its own will.
void SessionModel::begin_end(ModelSession& session) {
    session.subscriptions.clear();
    session.inbox.clear();
}

void SessionModel::destroy(const std::string& client) {
    for (auto& [message, taken] : taken_) {
        if (taken.holder != client || taken.acknowledged) continue;
        taken.holder.clear();
        taken.died = message.second->qos == QoS::exactly_once;
    }
    sessions_.erase(client);
}

void SessionModel::tick(Millis now) {
    std::vector<std::string> ending;
    std::vector<std::string> wills;
    for (const auto& [client, session] : sessions_) {
        if (session.connected) continue;
        if (session.ends <= now)
            ending.push_back(client);
        else if (session.will && session.will_due <= now)
            wills.push_back(client);
    }
    for (const auto& client : wills) publish_will(*find(client), now);
    for (const auto& client : ending) end_disconnected(client, now);
    ended_together = ending.size() + wills.size();
}

// -- messages --

void SessionModel::publish_will(ModelSession& session, Millis now) {
    if (!session.will) return;
    Note note = session.will->note;
    session.will.reset();
    ++wills;
    publish(std::move(note), session.shard, now);
}

void SessionModel::publish(Note note, unsigned shard, Millis now) {
    note.number = ++events_;
    if (note.message_expiry) note.expires = now + Millis{*note.message_expiry} * 1000;
    const Note& kept = notes_.emplace_back(std::move(note));
    published_.push_back(&kept);
    if (is_for_shares(kept.topic)) shared_published_.push_back(&kept);
    arrive(kept, shard, now);
}

void SessionModel::arrive(const Note& note, unsigned shard, Millis) {
    if (note.retain) {
        auto& place = retained_[shard][note.topic];
        if (!place || place->number < note.number) place = &note;
    }
    for (auto& [client, session] : sessions_) {
        if (session.shard != shard) continue;
        if (note.retain)
            for (RetainedRequest& request : session.requests)
                if (selects(request.filter, note.topic)) request.unsent.emplace(&note, false);
        auto copy = copy_for(session, note);
        if (!copy) continue;
        if (copy->qos != QoS::at_most_once)
            session.waiting.push_back(std::move(*copy));
        else if (session.connected)
            session.due.push_back(std::move(*copy));
        // A connected client may have room for it in this turn.
        if (!session.connected) lose_surplus(session);
    }
}

void SessionModel::lose_surplus(ModelSession& session) {
    auto& waiting = session.waiting;
    for (; waiting.size() > settings_.max_queued_messages; ++lost_to_full_queues) {
        std::map<std::uint32_t, std::size_t> bytes;
        for (const Copy& copy : waiting) bytes[sender(copy)] += cost(settings_, copy);
        const auto largest = std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) {
                                 return std::pair(a.second, a.first) < std::pair(b.second, b.first);
                             })->first;
        waiting.erase(std::find_if(waiting.begin(), waiting.end(),
                                   [&](const Copy& copy) { return sender(copy) == largest; }));
    }
}

std::optional<Copy> SessionModel::copy_for(const ModelSession& session, const Note& note) const {
    std::optional<Copy> copy;
    bool declined = false;
    for (const auto& [filter, subscription] : session.subscriptions) {
        if (filter_of_share(filter) || !selects(filter, note.topic)) continue;
        if (subscription.options.no_local && note.publisher == session.client) {
            declined = true;
            continue;
        }
        if (!copy) copy = Copy{&note, QoS::at_most_once, false, {}};
        copy->qos = std::max(copy->qos, std::min(note.qos, subscription.options.qos));
        copy->retain |= note.retain && subscription.options.retain_as_published;
        if (subscription.identifier != 0) copy->identifiers.insert(subscription.identifier);
    }
    if (!settings_.inbox || note.topic != session.inbox) return copy;
    // The inbox is like one more subscription, with QoS 2.
    if (!copy && !declined)
        copy = Copy{
            .note = &note, .qos = note.qos, .retain = false, .identifiers = {}, .by_inbox = true};
    if (copy) copy->qos = std::min(note.qos, settings_.max_qos);
    return copy;
}

void SessionModel::check_unwanted(const Note& note, unsigned shard) const {
    for (const auto& [client, session] : sessions_)
        if (session.shard == shard && copy_for(session, note))
            broken("the message to {} was not sent to the shard of {}, who subscribes to it",
                   note.topic, client);
}

// -- subscriptions --

bool SessionModel::subscribe(const std::string& client, const std::string& filter,
                             SubscribeOptions options, std::uint32_t identifier, Millis now) {
    ModelSession& session = *find(client);
    const bool is_new = !session.subscriptions.contains(filter);
    const auto since = is_new ? ++events_ : session.subscriptions[filter].since;
    const bool settled = !is_new && session.subscriptions[filter].settled;
    session.subscriptions[filter] = {options, identifier, settled, since};
    if (filter_of_share(filter)) {
        session.shared_ever.insert(filter);
        return is_new;
    }
    if (options.retain_handling == 2 || (options.retain_handling == 1 && !is_new)) return is_new;
    for (RetainedRequest& request : session.requests)
        if (request.filter == filter) request.closed = true;
    RetainedRequest request{filter, options, identifier, {}};
    for (const auto& [topic, note] : retained_[session.shard])
        if (!note->payload.empty() && !note->expired(now) && selects(filter, topic))
            request.unsent.emplace(note, true);
    session.requests.push_back(std::move(request));
    return is_new;
}

bool SessionModel::unsubscribe(const std::string& client, const std::string& filter) {
    ModelSession& session = *find(client);
    for (RetainedRequest& request : session.requests)
        if (request.filter == filter) request.closed = true;
    return session.subscriptions.erase(filter) > 0;
}

void SessionModel::settle_shares() {
    ++events_;
    for (auto& [client, session] : sessions_)
        for (auto& [filter, subscription] : session.subscriptions) {
            if (subscription.settled) continue;
            subscription.settled = true;
            subscription.since = events_;
        }
}

// -- acknowledgements --

void SessionModel::puback(const std::string& client, std::uint16_t id) {
    ModelSession& session = *find(client);
    const auto copy = find_id(session.unacknowledged, id);
    acknowledge_shared(session, *copy);
    session.unacknowledged.erase(copy);
    session.on_the_wire.erase(id);
}

void SessionModel::pubrec(const std::string& client, std::uint16_t id, bool error) {
    ModelSession& session = *find(client);
    const auto copy = find_id(session.unacknowledged, id);
    acknowledge_shared(session, *copy);
    session.unacknowledged.erase(copy);
    if (error)
        session.on_the_wire.erase(id);
    else
        session.released.insert(id);
    if (!error) session.to_release.insert(id);
}

void SessionModel::pubcomp(const std::string& client, std::uint16_t id) {
    ModelSession& session = *find(client);
    session.released.erase(id);
    session.on_the_wire.erase(id);
}

void SessionModel::receive(const std::string& client, const Pubrel& pubrel) {
    ModelSession& session = *find(client);
    if (!session.released.contains(pubrel.packet_id))
        broken("{} got PUBREL {}, which nothing has been received with", client, pubrel.packet_id);
    if (session.to_release.erase(pubrel.packet_id) == 0)
        broken("{} got PUBREL {} twice", client, pubrel.packet_id);
}

// -- what is received --

void SessionModel::receive(const std::string& client, const Publish& publish,
                           std::string_view topic, Millis now) {
    ModelSession& session = *find(client);
    Copy got{nullptr, publish.qos, publish.retain, {}, publish.packet_id};
    std::optional<std::uint32_t> lives;
    std::optional<std::string_view> told_sender;
    publish.properties.for_each([&](const PropertyValue& property) {
        if (property.id == Property::subscription_identifier)
            got.identifiers.insert(property.number);
        if (property.id == Property::message_expiry_interval) lives = property.number;
        if (property.id == Property::user_property) told_sender = property.text;
    });

    if (publish.qos == QoS::at_most_once) {
        if (publish.dup) broken("{} got a message of QoS 0 with DUP", client);
        if (!take_owed(session, got, publish.payload, topic, now) &&
            !take_retained(session, got, publish.payload, topic, now))
            broken("{} got a message of QoS 0 to {} that was not for it", client, topic);
    } else if (publish.dup) {
        receive_again(session, got, publish.payload, topic, now);
    } else {
        receive_new(session, got, publish.payload, now, topic);
    }
    if (publish.qos != QoS::at_most_once) {
        session.on_the_wire.insert(publish.packet_id);
        if (session.on_the_wire.size() > session.hello.receive_maximum)
            broken("{} has {} messages in flight, its Receive Maximum is {}", client,
                   session.on_the_wire.size(), session.hello.receive_maximum);
    }

    const Note& note =
        *(publish.qos != QoS::at_most_once ? session.unacknowledged.back().note : got.note);
    if (!is_v5(session)) return;
    const bool tells_sender = is_chat_topic(topic);
    if (told_sender.has_value() != tells_sender || (tells_sender && *told_sender != note.user))
        broken("a message of {} to {} is said to be of {}", note.user, topic,
               told_sender.value_or("nobody"));
    if (lives.has_value() != note.expires.has_value())
        broken("a message to {} has a Message Expiry Interval, or lost it", topic);
    const Millis left = note.expires ? std::max<Millis>(*note.expires - now, 0) : 0;
    if (lives && (Millis{*lives} * 1000 > left + 999 || Millis{*lives} * 1000 < left))
        broken("a message to {} has {} seconds left, {} ms are right", topic, *lives, left);
}

void SessionModel::receive_new(ModelSession& session, Copy& got, std::string_view payload,
                               Millis now, std::string_view topic) {
    const auto id = got.packet_id;
    for (const auto* copies : {&session.unacknowledged, &session.to_resend})
        if (has_id(*copies, id)) broken("{} got packet id {}, which is in use", session.client, id);
    if (session.released.contains(id))
        broken("{} got packet id {}, which is not complete", session.client, id);
    for (; !session.to_resend.empty(); session.to_resend.pop_front()) {
        if (fits(session, session.to_resend.front(), now))
            broken("{} got something new to {} before what is to be sent again", session.client,
                   topic);
        ++lost_to_size;
    }
    std::erase_if(session.may_resend, [&](const Copy& copy) { return copy.packet_id == id; });

    if (is_for_shares(topic))
        take_shared(session, got, payload, topic);
    else if (!take_owed(session, got, payload, topic, now) &&
             !take_retained(session, got, payload, topic, now))
        broken("{} got a message to {} ('{}', QoS {}) that was not for it", session.client, topic,
               payload, static_cast<int>(got.qos));
    session.unacknowledged.push_back(got);
}

void SessionModel::receive_again(ModelSession& session, const Copy& got, std::string_view payload,
                                 std::string_view topic, Millis now) {
    if (const auto shared = find_id(session.may_resend, got.packet_id);
        shared != session.may_resend.end() && shared->note->payload == payload) {
        session.unacknowledged.splice(session.unacknowledged.end(), session.may_resend, shared);
        return;
    }
    const auto found = find_id(session.to_resend, got.packet_id);
    if (found == session.to_resend.end())
        broken("{} got packet id {} to {} with DUP, which was not sent before", session.client,
               got.packet_id, topic);
    if (!same(session, *found, got, payload, topic))
        broken("{} got packet id {} again as another message", session.client, got.packet_id);
    for (auto older = session.to_resend.begin(); older != found;) {
        if (fits(session, *older, now))
            broken("{} got packet id {} again before {}, which is older", session.client,
                   got.packet_id, older->packet_id);
        ++lost_to_size;
        older = session.to_resend.erase(older);
    }
    if (is_for_shares(topic)) taken_[{share_of(session, *found), found->note}].live = true;
    session.unacknowledged.splice(session.unacknowledged.end(), session.to_resend, found);
    ++resent;
}

bool SessionModel::take_owed(ModelSession& session, Copy& got, std::string_view payload,
                             std::string_view topic, Millis now) {
    auto& owed = got.qos == QoS::at_most_once ? session.due : session.waiting;
    const auto is_it = [&](const Copy& copy) { return same(session, copy, got, payload, topic); };
    const auto found = std::find_if(owed.begin(), owed.end(), [&](const Copy& copy) {
        return is_it(copy) && !copy.note->expired(now);
    });
    if (found == owed.end() && std::none_of(owed.begin(), owed.end(), is_it)) return false;
    if (found == owed.end()) broken("{} got an expired message to {}", session.client, topic);
    for (auto older = owed.begin(); older != found;) {
        if (pass_over(session, *older, now)) {
            older = owed.erase(older);
            continue;
        }
        if (older->note->topic == topic && older->note->publisher == found->note->publisher &&
            older->qos == got.qos)
            broken("{} got '{}' to {} before '{}'", session.client, payload, topic,
                   older->note->payload);
        ++older;
    }
    got.note = found->note;
    got.identifiers = found->identifiers;
    by_inbox += found->by_inbox;
    owed.erase(found);
    ++received;
    return true;
}

bool SessionModel::take_retained(ModelSession& session, Copy& got, std::string_view payload,
                                 std::string_view topic, Millis now) {
    if (!got.retain) return false;
    // Several requests may select it: it answers one that is still open first.
    session.requests.sort([](const auto& a, const auto& b) { return a.closed < b.closed; });
    for (const bool right : {true, false})
        for (RetainedRequest& request : session.requests) {
            std::multiset<std::uint32_t> identifiers;
            if (is_v5(session) && request.identifier != 0) identifiers.insert(request.identifier);
            if (identifiers != got.identifiers) continue;
            for (const auto& [note, must] : request.unsent) {
                if (must != right || note->topic != topic || note->payload != payload ||
                    note->payload.empty())
                    continue;
                if (got.qos != std::min(note->qos, request.options.qos)) continue;
                if (request.options.no_local && note->publisher == session.client) continue;
                if (note->expired(now))
                    broken("{} was sent an expired message to {}", session.client, topic);
                got.note = note;
                got.without_identifiers = !is_v5(session);
                request.unsent.erase(note);
                ++retained_done;
                return true;
            }
        }
    return false;
}

// -- shared subscriptions --

/// In these tests the name of a shared subscription ends with its subscription identifier, and
/// 3.1.1 clients share only topics that have one group.
std::string SessionModel::share_of(const ModelSession& session, const Copy& copy) const {
    for (const auto& share : session.shared_ever) {
        if (!selects(*filter_of_share(share), copy.note->topic)) continue;
        const auto identifier =
            static_cast<std::uint32_t>(share[std::string_view("$share/g").size()] - '0' + 1);
        if (copy.identifiers.empty() || copy.identifiers == std::multiset{identifier}) return share;
    }
    return {};
}

void SessionModel::take_shared(ModelSession& session, Copy& got, std::string_view payload,
                               std::string_view topic) {
    const auto found = std::find_if(
        shared_published_.begin(), shared_published_.end(),
        [&](const Note* note) { return note->topic == topic && note->payload == payload; });
    if (found == shared_published_.end())
        broken("{} got a message that was never published", topic);
    got.note = *found;
    const auto share = share_of(session, got);
    if (share.empty()) broken("{} got a message to {} that it never shared", session.client, topic);
    if (got.qos != got.note->qos) broken("a shared message to {} changed its QoS", topic);
    Taken& taken = taken_[{share, got.note}];
    if (taken.acknowledged)
        broken("{} got '{}' of {}, which {} has had", session.client, payload, share, taken.holder);
    if (taken.died)
        broken("{} got '{}' of {}, which was another session's", session.client, payload, share);
    if (taken.live || (!taken.holder.empty() && got.qos == QoS::exactly_once))
        broken("{} got '{}' of {}, which {} holds", session.client, payload, share, taken.holder);
    taken.holder = session.client;
    taken.live = true;
    ++shared_taken;
}

void SessionModel::acknowledge_shared(const ModelSession& session, const Copy& copy) {
    if (!is_for_shares(copy.note->topic)) return;
    Taken& taken = taken_[{share_of(session, copy), copy.note}];
    taken.acknowledged = true;
    taken.holder = session.client;
}

// -- checks --

/// Does the largest allowed encoding fit the client's Maximum Packet Size? A broker may save bytes
/// with a topic alias, but must not waste them.
bool SessionModel::fits(const ModelSession& session, const Copy& copy, Millis now) const {
    if (session.hello.largest_packet == 0) return true;
    PropertyList properties;
    if (is_v5(session)) {
        properties = sender_told(settings_, *copy.note);
        if (copy.note->expires)
            properties.add(
                Property::message_expiry_interval,
                static_cast<std::uint32_t>(std::max<Millis>(*copy.note->expires - now, 0) / 1000));
        for (const auto identifier : copy.identifiers)
            properties.add(Property::subscription_identifier, identifier);
    }
    const Publish publish{.qos = copy.qos,
                          .topic = copy.note->topic,
                          .packet_id = 1,
                          .properties = properties.view(),
                          .payload = copy.note->payload};
    return encoded_size(publish, session.hello.version) <= session.hello.largest_packet;
}

/// Is the message dropped when its turn comes?
bool SessionModel::pass_over(const ModelSession& session, const Copy& copy, Millis now) {
    if (copy.note->expired(now)) return ++lost_to_expiry;
    if (!fits(session, copy, now)) return ++lost_to_size;
    return false;
}

void SessionModel::check_turn(Millis now) {
    for (auto& [client, session] : sessions_) check_turn(session, now);
}

void SessionModel::check_turn(ModelSession& session, Millis now) {
    if (session.connected) {
        for (const Copy& copy : session.due)
            if (!pass_over(session, copy, now))
                broken("{} did not get a message of QoS 0 to {}", session.client, copy.note->topic);
        session.due.clear();
        if (!session.to_release.empty())
            broken("{} did not get PUBREL {}", session.client, *session.to_release.begin());
        const auto in_flight = session.unacknowledged.size() + session.released.size();
        if (in_flight < session.window && session.reads) {
            while (!session.to_resend.empty()) {
                const Copy& copy = session.to_resend.front();
                if (fits(session, copy, now))
                    broken("{} did not get packet id {} again, to {}", session.client,
                           copy.packet_id, copy.note->topic);
                ++lost_to_size;
                session.to_resend.pop_front();
            }
            while (!session.waiting.empty()) {
                const Copy& copy = session.waiting.front();
                if (!pass_over(session, copy, now))
                    broken("{} did not get '{}' to {}, and has room", session.client,
                           copy.note->payload, copy.note->topic);
                session.waiting.pop_front();
            }
        }
    }
    lose_surplus(session);
}

void SessionModel::check_quiet(Millis now) {
    for (auto& [client, session] : sessions_) {
        if (!session.connected) continue;
        if (!session.waiting.empty() || !session.unacknowledged.empty() ||
            !session.to_resend.empty() || !session.released.empty())
            broken("{} still waits for messages", client);
        session.may_resend.clear();
        for (const RetainedRequest& request : session.requests) {
            if (request.closed) continue;
            for (const auto& [note, must] : request.unsent) {
                if (!must || retained_[session.shard][note->topic] != note) continue;
                if (request.options.no_local && note->publisher == client) continue;
                Copy copy{note, std::min(note->qos, request.options.qos), true, {}};
                if (request.identifier != 0) copy.identifiers.insert(request.identifier);
                if (note->expired(now) || !fits(session, copy, now)) continue;
                broken("{} was not sent '{}', which is retained at {}", client, note->payload,
                       note->topic);
            }
        }
        session.requests.clear();
        // Each message of its shared subscriptions has a connected receiver.
        for (const auto& [share, subscription] : session.subscriptions) {
            const auto filter = filter_of_share(share);
            if (!filter || !subscription.settled) continue;
            const bool one_is_disconnected = std::any_of(
                sessions_.begin(), sessions_.end(), [&share = share](const auto& entry) {
                    return !entry.second.connected && entry.second.subscriptions.contains(share);
                });
            if (one_is_disconnected) continue;  // it may be waiting for that client
            for (const Note* note : shared_published_) {
                if (note->qos == QoS::at_most_once || note->number < subscription.since) continue;
                if (!selects(*filter, note->topic)) continue;
                const auto found = taken_.find({share, note});
                if (found == taken_.end())
                    broken("no client got '{}' of {}, and {} is connected", note->payload, share,
                           client);
                const Taken& taken = found->second;
                const ModelSession* holder = find(taken.holder);
                if (holder && !holder->connected) continue;
                const bool kept = note->qos == QoS::exactly_once && !taken.holder.empty();
                if (!taken.acknowledged && !taken.died && !kept)
                    broken("'{}' of {} was lost with {}, and {} is connected", note->payload, share,
                           taken.holder, client);
            }
        }
    }
}

std::size_t SessionModel::connected(unsigned shard) const {
    return static_cast<std::size_t>(std::count_if(
        sessions_.begin(), sessions_.end(),
        [&](const auto& entry) { return entry.second.shard == shard && entry.second.connected; }));
}

std::size_t SessionModel::disconnected(unsigned shard) const {
    return static_cast<std::size_t>(std::count_if(
        sessions_.begin(), sessions_.end(),
        [&](const auto& entry) { return entry.second.shard == shard && !entry.second.connected; }));
}

std::size_t SessionModel::subscriptions(unsigned shard) const {
    std::size_t sum = 0;
    for (const auto& [client, session] : sessions_)
        if (session.shard == shard) sum += session.subscriptions.size();
    return sum;
}

std::size_t SessionModel::waiting(unsigned shard) const {
    std::size_t sum = 0;
    for (const auto& [client, session] : sessions_)
        if (session.shard == shard) sum += session.waiting.size();
    return sum;
}

std::size_t SessionModel::retained(unsigned shard, Millis now) const {
    const auto& topics = retained_[shard];
    return static_cast<std::size_t>(
        std::count_if(topics.begin(), topics.end(), [&](const auto& entry) {
            return !entry.second->payload.empty() && !entry.second->expired(now);
        }));
}

}  // namespace pulsegate
