#include "tests/support/session_model.h"

#include <algorithm>
#include <iterator>

#include "server/base/hash.h"
#include "server/message/message.h"
#include "server/message/topics.h"

namespace pulsegate {

namespace {

std::uint32_t sender(const Copy& copy) {
    return static_cast<std::uint32_t>(fingerprint(copy.note->user));
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

std::optional<std::string_view> filter_of_share(std::string_view filter) {
    if (!filter.starts_with("$share/")) return std::nullopt;
    filter.remove_prefix(7);
    return filter.substr(filter.find('/') + 1);
}

std::list<Copy>::iterator find_id(std::list<Copy>& copies, std::uint16_t id) {
    return std::find_if(copies.begin(), copies.end(),
                        [&](const Copy& copy) { return copy.packet_id == id; });
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
            may_be_lost_to_expiry += session->waiting.size();
            session->waiting.clear();
            session->gone = 0;
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

    // The quota is that of all shards, and each gives up its own.
    std::size_t disconnected_in_all = 0;
    for (unsigned shard = 0; shard < shards_; ++shard) disconnected_in_all += disconnected(shard);
    if (disconnected_in_all <= settings_.persistent_session_quota) return;
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
    may_be_lost_to_expiry += find(client)->waiting.size();
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

void SessionModel::arrive(const Note& note, unsigned shard, Millis now) {
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
        if (!session.connected) lose_surplus(session, now);
    }
}

/// The sender, on chat topics: the only property that a client can't set.
PropertyList SessionModel::sender_told(const Note& note) const {
    PropertyList properties;
    if (is_chat_topic(note.topic)) properties.add_user(settings_.sender_property, note.user);
    return properties;
}

std::size_t SessionModel::cost(const Copy& copy) const {
    return Message{.topic = copy.note->topic,
                   .payload = copy.note->payload,
                   .properties = sender_told(*copy.note).take()}
               .cost() +
           copy.identifiers.size() * sizeof(std::uint32_t);
}

void SessionModel::lose_surplus(ModelSession& session, Millis now) {
    auto& waiting = session.waiting;
    if (waiting.size() > settings_.max_queued_messages) {
        const auto expired =
            std::erase_if(waiting, [&](const Copy& copy) { return copy.note->expired(now); });
        session.gone += expired;
        may_be_lost_to_expiry += expired;
    }
    for (; waiting.size() > settings_.max_queued_messages; ++lost_to_full_queues) {
        std::map<std::uint32_t, std::size_t> bytes;
        for (const Copy& copy : waiting) bytes[sender(copy)] += cost(copy);
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
            broken("the message to {} was not sent to the shard of its subscriber {}", note.topic,
                   client);
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
    if (options.retain_handling == 2 || (options.retain_handling == 1 && !is_new)) {
        for (RetainedRequest& request : session.requests) {
            if (request.filter != filter || request.closed) continue;
            // Some of its own may have been passed over before, or will be.
            if (options.no_local || request.terms.back().options.no_local)
                for (auto& [note, must] : request.unsent) must &= note->publisher != client;
            request.terms.push_back({options, identifier});
        }
        return is_new;
    }
    for (RetainedRequest& request : session.requests)
        if (request.filter == filter) request.closed = true;
    RetainedRequest request{filter, {{options, identifier}}, {}};
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

SessionModel::Waiting SessionModel::waiting(unsigned shard, Millis now) const {
    Waiting sum;
    for (const auto& [client, session] : sessions_) {
        if (session.shard != shard) continue;
        sum.most += session.waiting.size() + session.gone;
        for (const Copy& copy : session.waiting)
            ++(copy.note->expired(now) ? sum.expired : sum.least);
    }
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
