#include "server/session/broker.h"

#include <utility>
#include <variant>

#include "server/base/overloaded.h"

namespace pulsegate {

namespace {

Retained::Limits retained_limits(const BrokerSettings& settings) {
    return {settings.max_retained_messages, settings.max_retained_bytes,
            settings.max_retained_messages_per_user, settings.max_retained_bytes_per_user};
}

}  // namespace

Broker::Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Interest& interest,
               Counters& counters, BrokerHost& host)
    : settings_(settings),
      place_{shard, shards},
      receipts_(place_, host),
      journal_(settings, place_, host, receipts_),
      events_(settings, journal_, counters),
      history_(settings.history_bytes / shards, tracer_),
      router_(interest),
      retained_(retained_limits(settings), host.totals().retained),
      sessions_(settings, place_, host.totals()),
      memory_(settings, host),
      context_{settings, place_, host, counters, tracer_, history_, receipts_, journal_},
      packets_(context_),
      tables_{interest, presence_, sessions_, router_, retained_},
      delivery_{packets_, events_, inboxes_, rooms_, room_logs_, packed_, shared_, replay_},
      requests_{authorizations_, memory_, subscriptions_, wills_},
      inboxes_(context_, tables_, packets_),
      rooms_(settings, place_, host.totals(), interest, presence_, journal_),
      room_logs_(context_, tables_, rooms_, packets_),
      packed_(context_, tables_, rooms_, packets_),
      shared_(context_, tables_, packets_),
      replay_(context_, tables_, rooms_, packets_),
      fan_out_(context_, tables_, delivery_),
      announcer_(place_, presence_, fan_out_, journal_, events_, host),
      delayed_(context_, fan_out_, packets_.answers()),
      publishing_(context_, tables_, delivery_, authorizations_, memory_, fan_out_, delayed_),
      subscriptions_(context_, tables_, delivery_, authorizations_, memory_),
      wills_(authorizations_, rooms_, fan_out_, delayed_, journal_, counters),
      keeper_(context_, tables_, delivery_, fan_out_, subscriptions_, wills_),
      logins_(context_, tables_, delivery_, requests_, announcer_, fan_out_, keeper_),
      disconnects_(context_, tables_, delivery_, announcer_, wills_, keeper_),
      expired_(presence_, packets_, keeper_),
      evictions_(context_, tables_, delivery_, requests_, fan_out_, expired_, keeper_),
      restore_(context_, tables_, delivery_, subscriptions_),
      passage_(context_, tables_, delivery_, requests_, fan_out_, delayed_, keeper_),
      admin_(context_, tables_, delivery_, publishing_, delayed_, evictions_) {
    retained_.tell_expired([this](const Message& message) {
        if (journal_.stores_retained())
            journal_.add_lazily(DropRetained{message.stamp + 1, message.topic});
    });
}

void Broker::settings_changed() { retained_.use(retained_limits(settings_)); }

Broker::~Broker() {
    receipts_.close();
    sessions_.for_each([this](Session& session) { session.state.unsubscribe_all(router_); });
}

void Broker::use(std::shared_ptr<const PasswordLines> lines) {
    authorizations_.use(std::move(lines));
    evictions_.end_invalid_logins();
}

// -- events of connections --

void Broker::handle(Session& session, const Packet& packet, Millis now) {
    thread_.assert_here();
    const auto misplaced = [&](const char* why) {
        session.disconnect(Reason::protocol_error, why);
    };
    std::visit(Overloaded{
                   [&](const Publish& publish) { publishing_.receive(session, publish, now); },
                   [&](const Pubrel& pubrel) { publishing_.receive(session, pubrel); },
                   [&](const Puback& puback) { packets_.receive(session, puback, now); },
                   [&](const Pubrec& pubrec) { packets_.receive(session, pubrec, now); },
                   [&](const Pubcomp& pubcomp) { packets_.receive(session, pubcomp, now); },
                   [&](const Subscribe& request) { subscriptions_.receive(session, request, now); },
                   [&](const Unsubscribe& request) { subscriptions_.receive(session, request); },
                   [&](const Disconnect& disconnect) { disconnects_.receive(session, disconnect); },
                   [](const Pingreq&) {},  // the connection has answered it
                   [&](const Connect&) { misplaced("a second CONNECT"); },
                   [&](const Auth&) { misplaced("AUTH without an authentication method"); },
                   [&](const auto&) { misplaced("a packet that only servers send"); },
               },
               packet);
}

void Broker::lose_node(const Session& session) {
    thread_.assert_here();
    shared_.notify_groups(session, GroupMembership::Change::gives_back);
}

void Broker::drained(Session& session, Millis now) {
    thread_.assert_here();
    if (session.awaits_connack) return;
    if (session.state.exchanges().outbox().unsent()) packets_.send_waiting(session, now);
    replay_.drained(session);
}

// -- messages of other shards --

void Broker::receive(ShardMessage& message, Millis now) {
    thread_.assert_here();
    std::visit(Overloaded{
                   [&](PresenceQuery& query) { replay_.receive(query, now); },
                   [&](PresencePage& page) { replay_.receive(page, now); },
                   [&](TrackedMessage& tracked) { fan_out_.receive(tracked, now); },
                   [&](SettledPart& part) { receipts_.settle(place_.index, std::move(part)); },
                   [&](MessageStored& stored) {
                       journal_.stored(stored);
                       shared_.stored(stored.stamp, now);
                       packets_.stored(now);
                   },
                   [&](GroupMembership& membership) { shared_.receive(membership); },
                   [&](GroupDelivery& assigned) { shared_.receive(assigned, now); },
                   [&](GroupRecall& recall) { shared_.receive(recall, now); },
                   [&](GroupReturn& returned) { shared_.receive(returned, now); },
               },
               message);
}

// -- tasks that this shard left to itself --

void Broker::receive(OwnTurn& turn, Millis now) {
    thread_.assert_here();
    std::visit(Overloaded{
                   [&](ReplayTurn& replay) { replay_.receive(replay, now); },
                   [&](JournalTurn&) {
                       shared_.end_turn();
                       journal_.flush();
                   },
                   [&](DelayedTurn&) { delayed_.publish_next(now); },
                   [&](DelayedCancelled& cancelled) { delayed_.receive(cancelled); },
                   [&](GroupStored& stored) { shared_.receive(stored, now); },
               },
               turn);
}

// -- answers of the ledger --

void Broker::receive(LedgerAnswer& answer, Millis now) {
    thread_.assert_here();
    std::visit(Overloaded{
                   [&](UnitDone& done) {
                       journal_.receive(done);
                       announcer_.tell_of_new_users(now);
                   },
                   [&](MessagesRead& read) { receive(read, now); },
                   [&](DelayedDue& due) { delayed_.receive(due, now); },
               },
               answer);
}

/// The rules may have changed since these messages were queued.
void Broker::receive(const MessagesRead& read, Millis now) {
    Session* const session = packets_.receive(read);
    if (!session) return;
    subscriptions_.judge(*session, now);
    packets_.send_waiting(*session, now);
}

// -- time --

bool Broker::tick(Millis now) {
    thread_.assert_here();
    if (std::exchange(last_tick_, tick_at(now)) != tick_at(now)) {
        presence_.forget_some(expiry_clock(now), settings_.forget_after, [&](const User& user) {
            if (journal_.is_on()) journal_.add_lazily(DropUser{user.name});
        });
        presence_.shrink();
        sessions_.shrink();
        router_.shrink();
        rooms_.shrink();
        packed_.shrink();
        journal_.tick();
        packets_.tick();
        delayed_.tick(now);
        shared_.tick(now);
        replay_.tick(now);
        retained_.forget_some(now);
        expired_.sweep(now);
        room_logs_.sweep(now);
        packed_.sweep(sessions_.time_at(now), !fan_out_.unfinished());
    }
    const bool more_to_lose = announcer_.lose_awaited(now);
    const bool more_to_expire = authorizations_.expire(tick_at(now));
    const bool more_to_judge = subscriptions_.judge_some(now);
    return evictions_.expire(now) || more_to_lose || more_to_expire || more_to_judge;
}

bool Broker::store_lags() const {
    constexpr std::size_t most_answers = 20'000;
    // While the store refuses, the waiting answers are answers that can't be refused. They may wait
    // for hours, and each is charged to its client.
    const bool waits_for_answers = receipts_.size() > most_answers && !journal_.is_refused();
    return journal_.bytes() > settings_.most_unstored_bytes || waits_for_answers;
}

}  // namespace pulsegate
