#include <algorithm>
#include <list>

#include "protocol/encode.h"
#include "server/message/topics.h"
#include "tests/support/session_model.h"

namespace pulsegate {

namespace {

bool same(const ModelSession& session, const Copy& owed, const Copy& got, std::string_view payload,
          std::string_view topic) {
    return owed.note->payload == payload && owed.note->topic == topic && owed.qos == got.qos &&
           owed.retain == got.retain &&
           (!session.is_v5() || owed.without_identifiers || owed.identifiers == got.identifiers);
}

bool has_id(const std::list<Copy>& copies, std::uint16_t id) {
    return std::any_of(copies.begin(), copies.end(),
                       [&](const Copy& copy) { return copy.packet_id == id; });
}

}  // namespace

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
    if (!session.is_v5()) return;
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
            const auto may_have = [&](const RetainedTerms& terms, const Note& note) {
                std::multiset<std::uint32_t> identifiers;
                if (session.is_v5() && terms.identifier != 0) identifiers.insert(terms.identifier);
                return identifiers == got.identifiers &&
                       got.qos == std::min(note.qos, terms.options.qos) &&
                       !(terms.options.no_local && note.publisher == session.client);
            };
            for (const auto& [note, must] : request.unsent) {
                if (must != right || note->topic != topic || note->payload != payload ||
                    note->payload.empty())
                    continue;
                if (std::none_of(
                        request.terms.begin(), request.terms.end(),
                        [&, &note = note](const auto& terms) { return may_have(terms, *note); }))
                    continue;
                if (note->expired(now))
                    broken("{} was sent an expired message to {}", session.client, topic);
                got.note = note;
                got.without_identifiers = !session.is_v5();
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
    if (session.is_v5()) {
        properties = sender_told(*copy.note);
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
    lose_surplus(session, now);
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
                // Its turn may have come at any of these terms.
                const auto is_wanted = [&, &client = client, &session = session,
                                        &note = note](const RetainedTerms& terms) {
                    if (terms.options.no_local && note->publisher == client) return false;
                    Copy copy{note, std::min(note->qos, terms.options.qos), true, {}};
                    if (terms.identifier != 0) copy.identifiers.insert(terms.identifier);
                    return !note->expired(now) && fits(session, copy, now);
                };
                if (!std::all_of(request.terms.begin(), request.terms.end(), is_wanted)) continue;
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

}  // namespace pulsegate
