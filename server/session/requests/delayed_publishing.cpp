#include "server/session/requests/delayed_publishing.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/session/requests/delayed_terms.h"
#include "server/session/state/stored_will.h"
#include "server/session/terms/sender_name.h"

namespace pulsegate {

namespace {

constexpr std::size_t taken_at_a_time = 500;
/// The maximum number of messages in one second. A receiver that acknowledges quickly keeps up with
/// them.
constexpr std::size_t most_a_second = 8000;
constexpr std::size_t most_bytes_a_second = 64 * 1024 * 1024;
constexpr std::string_view name_property = "delay-id";

std::optional<std::string_view> name_of(const Publish& publish) {
    std::optional<std::string_view> name;
    publish.properties.for_each([&](const PropertyValue& property) {
        if (property.id == Property::user_property && property.key == name_property)
            name = property.text;
    });
    return name;
}

std::optional<std::int64_t> due_time(const DelayedTopic& topic, Millis now) {
    const WallMillis time = calendar_time(now);
    return topic.when <= longest_delay ? due_after(topic.when, time) : due_at(topic.when, time);
}

/// True if the packet identifier is stored. Then the client does not send the message again, so the
/// operation must not get lost.
bool is_promised(const Session& session, const Publish& publish) {
    return publish.qos == QoS::exactly_once && session.state.owner != 0;
}

/// At QoS 0 and not retained.
bool may_be_lost(const PutDelayed& put) { return put.flags == 0; }

DelayedOrigin origin_of(const Session& session) {
    constexpr std::int64_t latest = std::numeric_limits<std::uint32_t>::max();
    const auto issued = session.authorization ? session.authorization->token_issued : std::nullopt;
    return {.token_issued =
                static_cast<std::uint32_t>(std::clamp<std::int64_t>(issued.value_or(0), 0, latest)),
            .client = delayed_client(session.user.name, session.client)};
}

}  // namespace

// -- from clients --

std::optional<Refusal> DelayedPublishing::objection(const Publish& publish,
                                                    const DelayedTopic& topic, Millis now) const {
    // Refused delayed messages are not retried, so no later operation may be accepted before the
    // store works again.
    if (journal_.would_be_refused()) return store_in_trouble;
    if (topic.cancels()) return std::nullopt;
    if (topic.topic.empty() || !due_time(topic, now))
        return Refusal{Reason::topic_name_invalid,
                       "it is not $delayed/{seconds or Unix time}/{topic}"};
    const auto name = name_of(publish);
    if (name && !is_delay_name(*name))
        return Refusal{Reason::implementation_specific_error,
                       "its delay-id is empty, a number, longer than 256 bytes, or has + or #"};
    if (!journal_.is_on() && host_.memory() != MemoryState::plenty)
        return Refusal{Reason::quota_exceeded, "memory-budget is nearly used up",
                       Limit::memory_budget};
    return std::nullopt;
}

PutDelayed DelayedPublishing::make(const Session& session, const Publish& publish,
                                   const DelayedTopic& topic, Millis now) {
    Message message = make_message(topic.topic, publish.payload, publish.properties, publish.qos,
                                   publish.retain && settings_.retain_available, now);
    message.expires = 0;
    state_sender(settings_, message, session.user.name);
    PutDelayed put{.id = delayed_id(*due_time(topic, now), host_.next_delayed_number()),
                   .flags = will_flags(message),
                   .message_expiry = publish.properties.number(Property::message_expiry_interval),
                   .user = session.user.name};
    if (const auto name = name_of(publish)) put.name.emplace(*name);
    put.is_promised = is_promised(session, publish);
    put.origin = origin_of(session);
    put.message = share(std::move(message));
    return put;
}

std::optional<Refusal> DelayedPublishing::claim(PutDelayed& put) {
    std::optional<Refusal> refusal;
    const auto fits = [&](const DelayedTotal& all, const DelayedTotal& own) {
        refusal = delayed_limit_reached(settings_, all, own);
        return !refusal;
    };
    put.claim = host_.claim_delayed(put.user, {.messages = 1, .bytes = bytes_of(put)}, fits);
    return refusal;
}

void DelayedPublishing::cancel(const Session& session, const Publish& publish,
                               std::string_view name_or_number, ReceiptId receipt) {
    CancelDelayed cancel{.id = decimal_number(name_or_number).value_or(0),
                         .user = session.user.name};
    if (cancel.id == 0) cancel.name = name_or_number;
    cancel.is_promised = is_promised(session, publish);
    const bool is_kept = cancel.is_promised;
    journal_.cancel(std::move(cancel), {receipt, publish.packet_id, publish.qos, is_kept});
}

void DelayedPublishing::receive(const DelayedCancelled& cancelled) {
    const auto [receipt, packet_id, qos, is_promised, found, refused] = cancelled;
    if (receipt == 0) return;
    // The reason code is a success: the message was published or cancelled before.
    if (!found && !refused)
        answers_.answer_instead(receipt, packet_id, qos, Reason::no_matching_subscribers);
    // A promised cancellation is repeated later, and its answer waits for that.
    receipts_.settle(receipt, refused && !is_promised);
}

// -- when they are due --

void DelayedPublishing::tick(Millis now) {
    if (place_.index != 0) return;
    ticked_ = now;
    messages_left_ = most_a_second;
    bytes_left_ = most_bytes_a_second;
    if (!due_.empty()) {
        if (prepared_ == 0) host_.later(DelayedTurn{});  // otherwise its turns go on
    } else if (open_ == 0) {
        take_some(now);
    }
}

void DelayedPublishing::take_some(Millis now) {
    const std::int64_t second = calendar_time(now) / 1000;
    if (place_.index != 0 || stopped_ || taking_) return;
    if (journal_.is_refused() || host_.next_delayed() > second) return;
    taking_ = true;
    host_.take_delayed(second + 1, taken_at_a_time);
}

void DelayedPublishing::receive(DelayedDue& due, Millis now) {
    taking_ = false;
    std::move(due.messages.begin(), due.messages.end(), std::back_inserter(due_));
    publish_next(now);
}

std::size_t DelayedPublishing::drop_taken(const DelayedByClients& which) {
    std::size_t place = 0;
    const std::size_t were_prepared = prepared_;
    return std::erase_if(due_, [&](const PutDelayed& put) {
        const bool was_prepared = place++ < were_prepared;
        if (!which.includes(put)) return false;
        if (was_prepared) --prepared_;
        journal_.add(DropDelayed{put.id});
        return true;
    });
}

/// Publishes one message in a round, because each may have very many receivers.
void DelayedPublishing::publish_next(Millis now) {
    if (is_dropping_ || (prepared_ == 0 && !prepare())) return;
    const PutDelayed next = std::move(due_.front());
    due_.pop_front();
    --prepared_;
    publish(next, now);
    if (!due_.empty()) return host_.later(DelayedTurn{});
    if (open_ == 0) take_some(now);
}

/// Prepares the messages that may be published in this second; the others wait for the next one, or
/// for the next start. Those that may be lost must not come twice: the store deletes them first,
/// all at once, and nothing overtakes them meanwhile. Returns true if the first can be published.
bool DelayedPublishing::prepare() {
    PendingReceipt receipt(receipts_);
    while (!stopped_ && prepared_ < due_.size() && messages_left_ > 0 && bytes_left_ > 0) {
        const PutDelayed& next = due_[prepared_++];
        --messages_left_;
        bytes_left_ -= std::min(bytes_left_, next.message->cost());
        if (!may_be_lost(next)) continue;
        is_dropping_ = true;
        journal_.add(DropDelayed{next.id});
        journal_.await_retries(receipt.part());
    }
    if (!is_dropping_) return prepared_ > 0;
    ++open_;
    receipts_.report(receipt.close(), {}, [this](const Published&) {
        is_dropping_ = false;
        if (stopped_)
            publish_deleted(monotonic_now());
        else
            host_.later(DelayedTurn{});
        published();
    });
    return false;
}

void DelayedPublishing::stop(Millis now) {
    stopped_ = true;
    if (!is_dropping_) publish_deleted(now);
}

/// Publishes the prepared messages that the store no longer has, all at once, because the rounds
/// may end. The store has the others for the next start.
void DelayedPublishing::publish_deleted(Millis now) {
    std::size_t place = 0;
    std::erase_if(due_, [&](const PutDelayed& each) {
        if (place++ >= prepared_ || !may_be_lost(each)) return false;
        publish(each, now);
        return true;
    });
    prepared_ = 0;
}

void DelayedPublishing::publish(const PutDelayed& delayed, Millis now) {
    Message message = *delayed.message;
    set_will_flags(message, delayed.flags);
    if (delayed.message_expiry) message.expires = now + Millis{*delayed.message_expiry} * 1000;
    if (!delayed.user.empty()) message.sender = fingerprint(delayed.user);
    ++counters_.delayed_published;
    if (!may_be_lost(delayed)) return publish(delayed.id, std::move(message), nullptr, now);
    fan_out_.publish(std::move(message), nullptr, now);
}

void DelayedPublishing::publish_safely(Message message, std::optional<std::uint32_t> expiry,
                                       const Session& publisher, Millis now) {
    const auto id = delayed_id(calendar_time(now) / 1000, host_.next_delayed_number());
    journal_.put(PutDelayed{.id = id,
                            .flags = will_flags(message),
                            .message_expiry = expiry,
                            .user = publisher.user.name,
                            .message = share(Message(message)),
                            .is_promised = true,
                            .is_taken = true},
                 {});
    publish(id, std::move(message), &publisher, now);
}

/// The message is deleted in the same unit that stores it for its receivers.
void DelayedPublishing::publish(std::uint64_t id, Message message, const Session* publisher,
                                Millis now) {
    ++open_;
    PendingReceipt receipt(receipts_);
    message.promised = true;
    if (message.qos != QoS::at_most_once && journal_.is_on()) receipt.collect_all();
    fan_out_.publish(std::move(message), publisher, now, &receipt);
    receipt.then(
        [this, id, shared = receipt.collected(), now](const PartRef& part, Collected collected) {
            journal_.put(shared, std::move(collected), part, now);
            journal_.add(DropDelayed{id}, part);
            published();
        });
    receipts_.settle(receipt.close());
}

/// Others may have become due while the store took seconds.
void DelayedPublishing::published() {
    if (--open_ == 0 && due_.empty()) take_some(ticked_);
}

}  // namespace pulsegate
