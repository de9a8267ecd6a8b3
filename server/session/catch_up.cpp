#include "server/session/catch_up.h"

#include <algorithm>
#include <utility>

#include "protocol/topic.h"
#include "server/session/broker.h"

namespace pulsegate {

namespace {

constexpr std::size_t looked_at_a_page = 2000;
constexpr std::size_t messages_a_page = 200;

bool asks_presence(std::string_view filter) {
    return selects_presence(filter) || presence_user(filter);
}

bool watches_everybody(const Session& session) {
    return std::any_of(session.subscriptions.begin(), session.subscriptions.end(),
                       [](const Subscription& subscription) {
                           return selects_presence(subscription.filter->text());
                       });
}

}  // namespace

/// A new subscription is told what is retained. The answer begins with `catch_up`.
void Broker::wish_retained(Session& session, const SubscribeFilter& wanted,
                           std::uint32_t identifier) {
    end_catch_up(session, wanted.filter);
    if (!asks_presence(wanted.filter) && !retained_.may_have(wanted.filter)) return;
    add_wish(session, {.filter = std::string(wanted.filter),
                       .options = wanted.options,
                       .identifier = identifier});
}

bool Broker::keeps_up(const Session& session) const {
    if (!session.link) return false;
    const bool window_full = session.flow && session.flow->sent.size() >= session.receive_maximum;
    return !window_full && session.link->backlog() < settings_.output_budget / 4;
}

/// Changes of presence do not wait for a client that is away or busy: later it is told the latest.
void Broker::fall_behind(Session& session, std::uint64_t version) {
    if (session.catch_up) {
        // One such wish is enough, wherever it stands; but not the one that is being answered.
        auto& wishes = session.catch_up->wishes;
        const auto same =
            std::find_if(wishes.begin() + (session.link ? 1 : 0), wishes.end(),
                         [](const CatchUp::Wish& wish) { return wish.filter.empty(); });
        if (same != wishes.end()) {
            same->since_version = std::min(same->since_version, version);
            return;
        }
    }
    const bool first = !session.catch_up;
    add_wish(session, {.filter = {}, .since_version = version});
    if (first && session.link) wait_until_drained(session);
}

void Broker::add_wish(Session& session, CatchUp::Wish wish) {
    const bool first = !session.catch_up;
    if (first) session.catch_up = std::make_unique<CatchUp>();
    session.catch_up->wishes.push_back(std::move(wish));
    if (first) begin_wish(session);
}

void Broker::begin_wish(Session& session) {
    CatchUp& catch_up = *session.catch_up;
    const auto& filter = catch_up.wishes.front().filter;
    const auto user = presence_user(filter);
    catch_up.retained_told = filter.empty();  // whoever fell behind lacks presence only
    catch_up.after.clear();
    catch_up.shard = user ? home(*user, shards_) : 0;
    catch_up.from = SIZE_MAX;
}

/// Goes on with what can be told at once: one page of retained messages in all.
void Broker::catch_up(Session& session) {
    std::size_t room = messages_a_page;
    std::size_t looks = looked_at_a_page;
    while (session.catch_up) {
        CatchUp& catch_up = *session.catch_up;
        if (catch_up.question != 0 || catch_up.waiting) return;  // an answer is on its way
        if (room == 0 || looks == 0 || !keeps_up(session)) return wait_until_drained(session);
        const auto& filter = catch_up.wishes.front().filter;
        if (!catch_up.retained_told)
            room -= std::min(room, tell_retained(session, room, looks));
        else if (filter.empty() && !watches_everybody(session))
            narrow_wish(session);
        else if (filter.empty() || asks_presence(filter))
            return ask(session);
        else
            end_wish(session);
    }
}

/// Whoever fell behind and watches a few users need not have all of them looked at.
void Broker::narrow_wish(Session& session) {
    const auto since_version = session.catch_up->wishes.front().since_version;
    std::vector<CatchUp::Wish> narrow;
    for (const Subscription& subscription : session.subscriptions)
        if (presence_user(subscription.filter->text()))
            narrow.push_back({.filter = std::string(subscription.filter->text()),
                              .options = subscription.options,
                              .identifier = subscription.identifier,
                              .since_version = since_version});
    auto& wishes = session.catch_up->wishes;
    wishes.insert(wishes.begin() + 1, narrow.begin(), narrow.end());
    end_wish(session);
}

void Broker::wait_until_drained(Session& session) {
    session.catch_up->waiting = true;
    session.link->tell_when_drained();
}

void Broker::drained(Session& session, Millis now) {
    now_ = now;
    if (session.flow && session.flow->unsent()) refill_window(session);
    if (!session.catch_up || !session.catch_up->waiting) return;
    if (!keeps_up(session)) return;  // its window is full, and refill_window asks again
    session.catch_up->waiting = false;
    surroundings_.send(shard_, CatchUpTurn{new_question(session)});
}

std::uint64_t Broker::new_question(Session& session) {
    catching_up_.erase(session.catch_up->question);
    session.catch_up->question = next_question_++;
    catching_up_.emplace(session.catch_up->question, &session);
    return session.catch_up->question;
}

/// The session that asked; null if it has gone, or wants something else by now.
Session* Broker::asker_of(std::uint64_t question) {
    const auto found = catching_up_.find(question);
    if (found == catching_up_.end()) return nullptr;
    Session* session = found->second;
    catching_up_.erase(found);
    session->catch_up->question = 0;
    return session;
}

void Broker::read(CatchUpTurn& turn) {
    if (Session* session = asker_of(turn.id)) catch_up(*session);
}

// -- clients' retained messages
// -----------------------------------------------------------------------

/// Returns how much of the page it took, and counts down how many may be looked at.
std::size_t Broker::tell_retained(Session& session, std::size_t room, std::size_t& looks) {
    CatchUp& catch_up = *session.catch_up;
    const CatchUp::Wish& wish = catch_up.wishes.front();
    std::size_t told = 0;
    std::size_t bytes = settings_.output_budget / 4;
    const std::size_t looks_before = looks;
    catch_up.after =
        retained_.visit(wish.filter, catch_up.after, looks, now_, [&](const MessageRef& message) {
            if (wish.options.no_local && message->publisher == session.fingerprint()) return true;
            tell(session, message);
            bytes -= std::min(bytes, message->cost());
            return ++told < room && bytes > 0 && keeps_up(session);
        });
    catch_up.retained_told = catch_up.after.empty();
    told_ += looks_before - looks;
    return catch_up.retained_told ? told + 1 : room;
}

/// As retained, to a new subscriber with its options.
void Broker::tell(Session& session, const MessageRef& message) {
    const CatchUp::Wish& wish = session.catch_up->wishes.front();
    Delivery delivery{.message = message,
                      .qos = std::min({message->qos, wish.options.qos, settings_.max_qos}),
                      .retain = true};
    if (wish.identifier != 0) delivery.identifiers.push_back(wish.identifier);
    Publication publication(*message, now_);
    deliver(session, delivery, publication);
}

// -- presence
// ----------------------------------------------------------------------------------------

void Broker::ask(Session& session) {
    const auto id = new_question(session);
    const CatchUp& catch_up = *session.catch_up;
    const CatchUp::Wish& wish = catch_up.wishes.front();
    surroundings_.send(
        catch_up.shard,
        PresenceQuestion{
            .asker = shard_,
            .id = id,
            .filter = wish.filter.empty() ? std::string(presence_prefix) + '+' : wish.filter,
            .since_version = wish.since_version,
            .from = catch_up.from});
}

void Broker::read(PresenceQuestion& question) {
    PresencePage page = answer(question);
    // Our own subscriber gets it at once: what changed while it lay in the mailbox would reach the
    // client first, and the page would then tell it the older state as the last word.
    post(question.asker, std::move(page));
}

PresencePage Broker::answer(const PresenceQuestion& question) const {
    PresencePage page{.id = question.id, .next = 0, .messages = {}};
    if (const auto name = presence_user(question.filter)) {
        const User* user = presence_.find(*name);
        const bool news = user && user->version >= question.since_version;
        const auto message = news ? presence_message(*user) : nullptr;
        if (message) page.messages.push_back(message);
        return page;
    }
    // Names may be long: the page must not take the subscriber's budget for itself.
    std::size_t room = settings_.output_budget / 4;
    page.next = presence_.visit(question.from, looked_at_a_page, [&](const User& user) {
        if (user.version < question.since_version) return true;
        if (!topic_matches(question.filter, presence_topic(user.name))) return true;
        const auto message = presence_message(user);
        if (!message) return true;
        page.messages.push_back(message);
        room -= std::min(room, message->cost());
        return room > 0 && page.messages.size() < messages_a_page;
    });
    return page;
}

void Broker::read(PresencePage& page) {
    Session* const session = asker_of(page.id);
    if (!session) return;
    for (const MessageRef& message : page.messages) tell_presence(*session, message);

    CatchUp& told = *session->catch_up;
    const bool last_shard = told.shard + 1 == shards_ || presence_user(told.wishes.front().filter);
    told.from = page.next;
    if (page.next == 0 && last_shard) {
        end_wish(*session);
    } else if (page.next == 0) {
        ++told.shard;
        told.from = SIZE_MAX;
    }
    if (!session->catch_up) return;
    if (!page.messages.empty()) return wait_until_drained(*session);
    catch_up(*session);
}

/// To a new subscriber as retained; to one who fell behind as its subscriptions say now.
void Broker::tell_presence(Session& session, const MessageRef& message) {
    if (!session.catch_up->wishes.front().filter.empty()) return tell(session, message);
    bool wanted = false;
    Delivery delivery{.message = message};
    for (const Subscription& subscription : session.subscriptions) {
        const auto filter = subscription.filter->text();
        if (!filter.starts_with(presence_prefix) || !topic_matches(filter, message->topic))
            continue;
        wanted = true;
        delivery.retain |= subscription.options.retain_as_published;
        delivery.qos = std::max(delivery.qos, subscription.options.qos);
        if (subscription.identifier != 0) delivery.identifiers.push_back(subscription.identifier);
    }
    if (!wanted) return;
    delivery.qos = std::min(delivery.qos, message->qos);
    Publication publication(*message, now_);
    deliver(session, delivery, publication);
}

std::size_t Broker::catching_up() const {
    return static_cast<std::size_t>(
        std::count_if(sessions_.begin(), sessions_.end(),
                      [](const Session* session) { return session->link && session->catch_up; }));
}

// -- ends
// --------------------------------------------------------------------------------------------

void Broker::end_wish(Session& session) {
    auto& wishes = session.catch_up->wishes;
    wishes.erase(wishes.begin());
    if (wishes.empty())
        session.catch_up.reset();
    else
        begin_wish(session);
}

/// Who unsubscribes is told no more (MQTT 5.0, 3.10.4).
void Broker::end_catch_up(Session& session, std::string_view filter) {
    if (!session.catch_up) return;
    auto& wishes = session.catch_up->wishes;
    const bool under_way = wishes.front().filter == filter;
    if (under_way) pause_catch_up(session);
    std::erase_if(wishes, [&](const CatchUp::Wish& wish) { return wish.filter == filter; });
    if (!under_way) return;
    if (wishes.empty()) {
        session.catch_up.reset();
        return;
    }
    begin_wish(session);
    wait_until_drained(session);
}

/// No answer is awaited any more; `catch_up` goes on when the client is back.
void Broker::pause_catch_up(Session& session) {
    if (!session.catch_up) return;
    catching_up_.erase(session.catch_up->question);
    session.catch_up->question = 0;
    session.catch_up->waiting = false;
    // What changes in the meantime is added to such a wish, so it must not be half granted.
    if (session.catch_up->wishes.front().filter.empty()) begin_wish(session);
}

}  // namespace pulsegate
