#include "server/session/catch_up.h"

#include <algorithm>
#include <utility>

#include "protocol/topic.h"
#include "server/session/broker.h"

namespace pulsegate {

namespace {

constexpr std::size_t users_a_page = 2000;
constexpr std::size_t messages_a_page = 200;
constexpr std::size_t bookkeeping = 256;  ///< for each message that waits, see delivery.cpp

}  // namespace

void Broker::start_catch_up(Session& session, std::string_view filter, QoS qos,
                            std::uint32_t identifier) {
    if (!presence_user(filter) && !selects_presence(filter)) return;
    end_catch_up(session, filter);
    add_wish(session, {.filter = std::string(filter), .qos = qos, .identifier = identifier});
}

bool Broker::keeps_up(const Session& session) const {
    const bool window_full =
        session.outflow && session.outflow->sent.size() >= session.receive_maximum;
    return !window_full && session.link->backlog() < settings_.output_budget / 4;
}

void Broker::fall_behind(Session& session, std::uint64_t version) {
    if (session.catch_up) {
        auto& wishes = session.catch_up->wishes;
        const bool planned = wishes.size() > 1 && wishes.back().filter.empty();
        if (planned) {
            wishes.back().since_version = std::min(wishes.back().since_version, version);
            return;
        }
    }
    add_wish(session, {.filter = {}, .since_version = version});
}

void Broker::add_wish(Session& session, CatchUp::Wish wish) {
    const bool first = !session.catch_up;
    if (first) session.catch_up = std::make_unique<CatchUp>();
    session.catch_up->wishes.push_back(std::move(wish));
    if (first) begin_wish(session);
}

void Broker::begin_wish(Session& session) {
    CatchUp& catch_up = *session.catch_up;
    const auto user = presence_user(catch_up.wishes.front().filter);
    catch_up.shard = user ? home(*user, shards_) : 0;
    catch_up.from = SIZE_MAX;
    // Whoever fell behind must first take what is on the way.
    if (keeps_up(session)) return ask(session);
    catch_up.waiting = true;
    session.link->tell_when_drained();
}

void Broker::ask(Session& session) {
    CatchUp& catch_up = *session.catch_up;
    catch_up.waiting = false;
    catching_up_.erase(catch_up.question);
    catch_up.question = next_question_++;
    catching_up_.emplace(catch_up.question, &session);
    const CatchUp::Wish& wish = catch_up.wishes.front();
    surroundings_.ask(
        {.asker = shard_,
         .asked = catch_up.shard,
         .id = catch_up.question,
         .filter = wish.filter.empty() ? std::string(presence_prefix) + '+' : wish.filter,
         .since_version = wish.since_version,
         .from = catch_up.from});
}

PresencePage Broker::answer(const PresenceQuestion& question, Millis now) const {
    PresencePage page{.id = question.id, .next = 0, .messages = {}};
    if (const auto name = presence_user(question.filter)) {
        const User* user = presence_.find(*name);
        const auto message = user ? presence_message(*user, now) : nullptr;
        if (message) page.messages.push_back(message);
        return page;
    }
    // Names may be long: the page must not take the subscriber's budget for itself.
    std::size_t room = settings_.output_budget / 4;
    page.next = presence_.visit(question.from, users_a_page, [&](const User& user) {
        if (user.version < question.since_version) return true;
        if (!topic_matches(question.filter, presence_topic(user.name))) return true;
        const auto message = presence_message(user, now);
        if (!message) return true;
        page.messages.push_back(message);
        room -= std::min(room, bookkeeping + message->topic.size() + message->payload.size());
        return room > 0 && page.messages.size() < messages_a_page;
    });
    return page;
}

void Broker::continue_catch_up(const PresencePage& page) {
    const auto found = catching_up_.find(page.id);
    if (found == catching_up_.end()) return;  // the subscriber has gone, or wants something else
    Session& session = *found->second;
    CatchUp& catch_up = *session.catch_up;
    for (const MessageRef& message : page.messages) tell(session, message);

    const auto& wish = catch_up.wishes.front();
    const bool last_shard = catch_up.shard + 1 == shards_ || presence_user(wish.filter);
    catch_up.from = page.next;
    if (page.next == 0 && last_shard) return end_wish(session);
    if (page.next == 0) {
        ++catch_up.shard;
        catch_up.from = SIZE_MAX;
    }
    if (page.messages.empty()) return ask(session);
    catch_up.waiting = true;
    session.link->tell_when_drained();
}

/// One message of a page, as the wish says: to a new subscriber with its options and as retained,
/// to one who fell behind as its subscriptions say now.
void Broker::tell(Session& session, const MessageRef& message) {
    const CatchUp::Wish& wish = session.catch_up->wishes.front();
    Publication publication(*message);
    std::vector<std::uint32_t> identifiers;
    if (!wish.filter.empty()) {
        if (wish.identifier != 0) identifiers.push_back(wish.identifier);
        return deliver(session, message, publication, std::min(message->qos, wish.qos), true,
                       identifiers);
    }
    bool wanted = false;
    bool as_published = false;
    QoS qos = QoS::at_most_once;
    for (const Subscription& subscription : session.subscriptions) {
        if (!topic_matches(subscription.filter->text(), message->topic)) continue;
        wanted = true;
        as_published |= subscription.options.retain_as_published;
        qos = std::max(qos, subscription.options.qos);
        if (subscription.identifier != 0) identifiers.push_back(subscription.identifier);
    }
    if (wanted)
        deliver(session, message, publication, std::min(message->qos, qos), as_published,
                identifiers);
}

void Broker::end_wish(Session& session) {
    session.catch_up->wishes.pop_front();
    if (session.catch_up->wishes.empty()) return end_catch_up(session);
    begin_wish(session);
}

/// Who unsubscribes is told no more (MQTT 5.0, 3.10.4).
void Broker::end_catch_up(Session& session, std::string_view filter) {
    if (!session.catch_up) return;
    auto& wishes = session.catch_up->wishes;
    const bool under_way = wishes.front().filter == filter;
    std::erase_if(wishes, [&](const CatchUp::Wish& wish) { return wish.filter == filter; });
    if (wishes.empty()) return end_catch_up(session);
    if (under_way) begin_wish(session);
}

void Broker::end_catch_up(Session& session) {
    if (!session.catch_up) return;
    catching_up_.erase(session.catch_up->question);
    session.catch_up.reset();
}

void Broker::drained(Session& session) {
    if (!session.catch_up || !session.catch_up->waiting) return;
    if (session.outflow && !session.outflow->waiting.empty()) return;  // refill_window asks again
    ask(session);
}

}  // namespace pulsegate
