// Shared subscriptions: what members, their sessions' shards and their groups' homes tell each
// other. Mail between two shards arrives in order, so a group hears that a member has gone before
// it gets back what that member did not take.
#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/topic.h"
#include "server/log.h"
#include "server/session/broker.h"

namespace pulsegate {

void Broker::join(Session& session, std::string_view share, SubscribeOptions options,
                  std::uint32_t identifier, bool is_new) {
    if (is_new && session.shares++ == 0) sharing_.emplace(session.id, &session);
    const unsigned group = home(share, shards_);
    // Whoever hears of our SUBACK and publishes must find the group's home interested, though the
    // letter may still lie there unread.
    surroundings_.interest(group).add(shared_filter(share)->filter);
    post(group, Membership{Membership::Change::joins, std::string(share), session.id, options,
                           identifier});
}

void Broker::leave(Session& session, std::string_view share) {
    if (--session.shares == 0) sharing_.erase(session.id);
    post(home(share, shards_),
         Membership{Membership::Change::leaves, std::string(share), session.id});
}

/// The same about each group that the session is in.
void Broker::tell_groups(Session& session, Membership::Change change) {
    for (const Subscription& subscription : session.subscriptions) {
        const auto filter = subscription.filter->text();
        if (shared_filter(filter))
            post(home(filter, shards_), Membership{change, std::string(filter), session.id});
    }
}

void Broker::hand_out(const MessageRef& message, const ShareGroups::Choice& choice) {
    Delivery delivery{.message = message,
                      .qos = std::min(message->qos, choice.options.qos),
                      .retain = message->retain && choice.options.retain_as_published,
                      .share = choice.share};
    if (choice.identifier != 0) delivery.identifiers.push_back(choice.identifier);
    post(home_of(choice.member), Handout{choice.member, std::move(delivery), !choice.connected});
}

/// A member goes: what it has not acknowledged is for the others (MQTT 5.0, 4.8.2). Of QoS 2 only
/// what was never sent: the rest belongs to this session, and dies with it.
void Broker::give_back_shared(Session& session, bool ends) {
    if (!session.flow || !session.flow->shared) return;
    Flow& flow = *session.flow;
    const auto stays = [&](const Delivery& delivery) {
        if (!delivery.share || delivery.qos == QoS::exactly_once) return true;
        // What was begun before the client unsubscribed is for it to complete (3.10.4).
        return !ends && !router_.subscribed(session.subscriptions, *delivery.share);
    };
    const auto give_back = [&](Delivery& delivery) {
        const unsigned where = home(*delivery.share, shards_);
        post(where, Return{std::move(delivery)});
    };
    // Out of the lists before anything is handed out: it may come back to this very session.
    std::vector<Delivery> given_back;
    for (Flow::List* list : {&flow.interrupted, &flow.sent})
        for (auto entry = list->begin(); entry != list->end();) {
            const bool mine = stays(entry->delivery);
            if (!mine) given_back.push_back(std::move(entry->delivery));
            entry = mine ? std::next(entry) : list->erase(entry);
        }
    for (auto left = flow.waiting; left > 0; --left) {
        auto delivery = take_waiting(session);
        if (delivery->share)
            given_back.push_back(std::move(*delivery));
        else if (!ends)
            queue(session, *delivery);
    }
    for (Delivery& delivery : given_back) give_back(delivery);
}

// -- letters
// -----------------------------------------------------------------------------------------

/// To this shard at once, to others by mail.
void Broker::post(unsigned shard, Letter letter) {
    if (shard == shard_) return receive(letter, now_);
    surroundings_.send(shard, std::move(letter));
}

void Broker::receive(Letter& letter, Millis now) {
    now_ = now;
    std::visit([this](auto& content) { read(content); }, letter);
}

void Broker::read(Membership& membership) {
    groups_.apply(membership);
    if (membership.change == Membership::Change::joins)  // from now on the group counts by itself
        surroundings_.interest(shard_).remove(shared_filter(membership.share)->filter);
}

void Broker::read(Handout& handout) {
    const auto found = sharing_.find(handout.member);
    // It may have left while this lay in the mailbox, and even have begun anew under its name.
    const bool takes_it = found != sharing_.end() &&
                          (found->second->link || handout.even_if_away) &&
                          router_.subscribed(found->second->subscriptions, *handout.delivery.share);
    if (!takes_it) {
        const unsigned group = home(*handout.delivery.share, shards_);
        return post(group, Return{std::move(handout.delivery)});
    }
    Publication publication(*handout.delivery.message, now_);
    deliver(*found->second, handout.delivery, publication);
}

void Broker::read(Return& returned) {
    const Delivery& delivery = returned.delivery;
    if (const auto choice = groups_.choose(*delivery.share))
        return hand_out(delivery.message, *choice);
    ++counters_.dropped_no_member;
    log_limited(spdlog::level::warn, "message to {} dropped: nobody is left who shares {}",
                quoted(delivery.message->topic), quoted(*delivery.share));
}

}  // namespace pulsegate
