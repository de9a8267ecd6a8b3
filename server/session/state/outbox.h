#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/base/memory/recycled.h"
#include "server/message/message.h"
#include "server/session/durable/journal.h"
#include "server/session/state/queue_expiries.h"
#include "server/session/state/queue_shares.h"
#include "server/session/state/queued_message.h"

namespace pulsegate {

class InboxSenders;

/// A message in flight that is not in the store. Its publisher is answered when the client
/// acknowledges it, which saves a write to the disk. If that takes too long, the message is stored.
struct Unstored
    : Recycled<Unstored>,
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Unstored(Session& session, PartRef part, Millis due)
        : session(session), part(std::move(part)), due(due) {}

    Session& session;
    PartRef part;
    Millis due;
};

/// The QoS 1 and 2 messages to one client: those in flight, those that were in flight when the
/// connection ended, and those that wait for room in the client's window or for its next connection
/// (MQTT 5.0, 4.3, 4.4 and 4.9). It decides which message is sent next and returns it; the caller
/// sends it. A session without such messages has no outbox; see Exchanges.
///
/// Its lists and the totals must agree: every function that finds, moves or drops messages is a
/// method here.
class Outbox {
public:
    using Hook = boost::intrusive::list_member_hook<
        boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

    struct InFlight {
        Delivery delivery;  ///< without its message after the PUBREC
        std::uint16_t packet_id;
        bool again : 1 = false;          ///< sent on an earlier connection, so DUP is set
        bool perhaps_again : 1 = false;  ///< perhaps sent before a crash: see QueuedHead
        bool released : 1 = false;       ///< PUBREL was sent, PUBCOMP is awaited
        bool is_noted : 1 = false;       ///< at QoS 1: its packet identifier is in the store
        /// The time of sending, for QoS 1 to a stored session: the low bits of the time in ms; 0:
        /// unknown.
        std::uint32_t sent_at = 0;
        std::unique_ptr<Unstored> unstored{};  ///< null: it is stored, or need not be stored
        Hook to_note{};                        ///< see Totals
    };

    /// The totals of queued messages in all outboxes of a shard, and the journal that notes when a
    /// stored message is done; null: nothing is stored.
    struct Totals {
        std::size_t messages = 0;
        std::size_t expiring = 0;    ///< how many of these have an expiry
        std::size_t bytes = 0;       ///< with their bodies
        std::size_t bytes_held = 0;  ///< bytes of messages with bodies that must be in memory
        QueuedBodies bodies{};       ///< the other bodies
        std::uint64_t spared = 0;    ///< acknowledged before they had to be stored, since the start
        /// Stored messages in flight at QoS 1 whose packet identifier is not stored.
        boost::intrusive::list<InFlight,
                               boost::intrusive::member_hook<InFlight, Hook, &InFlight::to_note>,
                               boost::intrusive::constant_time_size<false>>
            to_note{};
        Journal* journal = nullptr;
        InboxSenders* inbox_senders = nullptr;  ///< gets the contents of inboxes

        std::size_t bytes_in_memory() const { return bytes_held + bodies.bytes(); }
        /// Bytes of the queues without bodies.
        std::size_t bytes_of_entries() const {
            return messages * sizeof(QueuedMessage) + expiring * QueueExpiries::entry_bytes;
        }
    };

    /// The effect of an acknowledgement.
    enum class Effect : std::uint8_t {
        unknown,    ///< nothing is in flight with that packet identifier
        misplaced,  ///< for the wrong QoS, or too early: a protocol error
        release,    ///< send PUBREL
        settled,    ///< the exchange is complete
    };

    /// `is_inbox`: it belongs to a user without a session.
    explicit Outbox(Totals& totals, bool is_inbox = false) : totals_(totals), is_inbox_(is_inbox) {}
    ~Outbox();
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    /// Must a new message wait, because the window is full or other messages must be sent first?
    bool must_wait(std::uint16_t window) const { return unsent() || in_flight() >= window; }

    /// Puts a new message in flight, with the next free packet identifier after `last`.
    InFlight& send(Delivery delivery, std::uint16_t last);

    /// Queues a new message, or a message from before a restart that may have been sent.
    void enqueue(const Delivery& delivery, bool perhaps_sent = false);
    /// Queues messages that were in another queue, or in this queue before a restart.
    void enqueue(Queue messages);
    /// The same, but merges both in the order of stamps. Both must be in this order.
    void merge(Queue messages);

    /// The message to send next: messages to send again come first, then the queue of `owner`,
    /// oldest first; but see `next_queued`. Null if there is none, if the window is full, or if its
    /// body must be read first.
    InFlight* send_next(std::uint16_t window, std::uint16_t last, OwnerId owner);

    /// The next message to send if it is in the queue, or null. After a crash, the store does not
    /// know all messages that were sent at QoS 1. These are in the queue, and may be older than
    /// messages to send again. Then both are sent in the order of stamps.
    const QueuedMessage* next_queued() const {
        if (queue_.empty()) return nullptr;
        const QueuedMessage& first = queue_.front();
        if (interrupted_.empty()) return &first;
        const bool is_older =
            first.perhaps_sent && first.stamp < interrupted_.front().delivery.message->stamp;
        return is_older ? &first : nullptr;
    }
    /// Must the next message be read from the store?
    bool awaits_body() const {
        const QueuedMessage* const next = next_queued();
        return next && !next->has_body();
    }
    /// The stamps of the first messages in the queue that must be read: up to `most` messages and
    /// up to this many bytes, but at least one.
    std::vector<Stamp> bodies_to_read(std::size_t most, std::size_t most_bytes) const;
    /// The messages in `asked` were read. Removes and returns the messages that the store no longer
    /// has.
    Queue put_bodies(const std::vector<Stamp>& asked, const std::vector<MessageRef>& found);

    /// Puts a message in flight that was in flight before a restart. Call it in the order of
    /// sending.
    void restore(Delivery delivery, std::uint16_t packet_id, bool released);

    /// A message that was in flight to the client when another process had it.
    struct Moved {
        Delivery delivery{};  ///< without a message if the message is restored, or after the PUBREC
        std::uint16_t packet_id = 0;
        bool is_released = false;
        bool waits = false;  ///< to be sent again
        std::uint32_t sent_at = 0;
    };
    /// Puts all these messages in flight, in the order of sending. Messages that are restored
    /// already may be left out.
    void adopt(std::vector<Moved> moved);
    /// Calls `visit(const InFlight&, bool waits)` for all messages in flight, in the order of
    /// sending.
    template <class Visit>
    void for_each_in_flight(Visit visit) const {
        for (const InFlight& each : sent_) visit(each, false);
        for (const InFlight& each : interrupted_) visit(each, true);
    }
    /// The queued messages with these ascending stamps may have been sent before.
    void set_perhaps_sent(const std::vector<Stamp>& stamps) {
        for (QueuedMessage& each : queue_)
            each.perhaps_sent = std::ranges::binary_search(stamps, each.stamp);
    }

    /// Calls `store(InFlight&)` for the messages in flight that are not stored, the oldest first.
    template <class Store>
    void for_each_unstored(Store store) {
        for (List* list : {&interrupted_, &sent_})
            for (InFlight& entry : *list)
                if (entry.unstored) store(entry);
    }

    /// Calls `visit(InFlight&)` for the messages in flight with identifiers that must be stored.
    template <class Visit>
    void for_each_to_note(Visit visit) {
        for (List* list : {&interrupted_, &sent_})
            for (InFlight& entry : *list)
                if (entry.to_note.is_linked()) visit(entry);
    }
    /// Stores its identifier.
    static void note(InFlight& entry, Journal& journal);

    /// Removes the message with this identifier, because it was not sent.
    void discard(std::uint16_t packet_id);

    Effect on_puback(std::uint16_t packet_id);
    /// See InFlight::sent_at.
    std::uint32_t sent_at(std::uint16_t packet_id) const;
    Effect on_pubrec(std::uint16_t packet_id, bool refused);
    Effect on_pubcomp(std::uint16_t packet_id);

    /// The connection has ended: messages in flight will be sent again.
    void interrupt();

    /// Removes the expired messages from the queue, without looking at the others.
    Queue take_expired(Millis now);

    /// Makes room in a full queue for another message of `sender` with this many bytes: removes the
    /// oldest message of the user who would have the most bytes in the queue. Nothing if that would
    /// be the new message.
    std::optional<QueuedMessage> take_surplus(SenderShares::Sender sender, std::size_t bytes);
    /// Are the shares of the senders counted? If not, `take_surplus` must examine each message
    /// first.
    bool knows_shares() const { return shares_ != nullptr; }

    /// Removes all messages for which `wanted(delivery, sent)` is true, and returns them in the
    /// order of sending; `sent` is false for queued messages, of the queue of `owner`. Does not
    /// call it for messages with bodies that are only in the store.
    template <class Wanted>
    std::vector<Delivery> take_if(OwnerId owner, Wanted wanted);

    /// Removes all queued messages.
    Queue take_queue();
    /// Removes messages from the inbox, sent or not, in the order of sending. While the session
    /// goes on, those at QoS 2 stay that its client may know by their packet identifiers.
    Queue take_from_inbox(bool session_ends);
    /// After a restart: marks the messages of QoS 2 to be sent again that have these ascending
    /// stamps as from the inbox with this owner. Returns their stamps, ascending.
    std::vector<Stamp> find_from_inbox(const std::vector<Stamp>& stamps, OwnerId inbox);
    bool has_any_from_inbox() const;
    /// Calls `visit(const Delivery&)` for messages from the inbox that were sent and not
    /// acknowledged.
    template <class Visit>
    void for_each_sent_from_inbox(Visit visit) const {
        for (const List* list : {&interrupted_, &sent_})
            for (const InFlight& entry : *list)
                if (entry.delivery.from_inbox && entry.delivery.message) visit(entry.delivery);
    }
    /// The stamps of all messages, sent or not, ascending; one for each copy.
    std::vector<Stamp> stamps() const;

    const Queue& queue() const { return queue_; }
    /// Moves the last message in the queue to its place in the order of stamps. All others must be
    /// in this order.
    void order_last();
    /// Removes the queued messages that are `wanted(const QueuedMessage&)`.
    template <class Wanted>
    Queue take_queued_if(Wanted wanted) {
        shares_.reset();  // updating the shares for each of many messages would take too long
        Queue taken;
        for (auto entry = queue_.begin(); entry != queue_.end();) {
            const auto next = std::next(entry);
            if (wanted(*entry)) taken.push_back(dequeue(entry));
            entry = next;
        }
        return taken;
    }

    /// Calls `visit(packet_id)` for each message that awaits PUBCOMP, the oldest first.
    template <class Visit>
    void for_each_released(Visit visit) const {
        for (const InFlight& entry : sent_)
            if (entry.released) visit(entry.packet_id);
    }

    /// Counts one message that was dropped from the full queue; returns the number since
    /// `take_lost`.
    std::size_t count_lost() { return ++lost_; }
    std::size_t take_lost();

    /// Are there messages to send before a new one?
    bool unsent() const { return !interrupted_.empty() || !queue_.empty(); }
    bool has_only_queue() const { return sent_.empty() && interrupted_.empty() && lost_ == 0; }
    bool idle() const { return has_only_queue() && queue_.empty(); }
    bool is_inbox() const { return is_inbox_; }
    bool has_shared() const { return shared_; }
    std::size_t in_flight() const { return sent_.size(); }
    std::size_t interrupted() const { return interrupted_.size(); }
    std::size_t queued() const { return queue_.size(); }
    /// Messages for the next connection.
    std::size_t waiting() const { return queued() + interrupted(); }
    std::size_t queued_bytes() const { return queued_bytes_; }
    /// Bytes of all messages, including messages in flight, but without bodies that can be left to
    /// the store. Those are bounded for all outboxes together.
    std::size_t bytes_in_memory() const {
        return queue_.size() * sizeof(QueuedMessage) + expiring() * QueueExpiries::entry_bytes +
               bytes_held_;
    }

private:
    template <class Wanted>
    std::vector<Delivery> take_sent_if(Wanted wanted);

    // Lists instead of deques, because an empty deque takes 600 bytes, and most lists have one
    // message.
    using List = std::list<InFlight>;

    List::iterator find(std::uint16_t packet_id);
    void put_in_flight(List& list, Moved&& moved);
    void erase_sent(List::iterator entry);
    void forget_identifier(const InFlight& entry);
    void count_out(const Delivery& delivery);
    std::uint16_t next_packet_id(std::uint16_t last);
    std::size_t expiring() const { return expiries_ ? expiries_->size() : 0; }
    void count_queued(Queue::iterator entry);
    void count_body(QueuedMessage& entry);
    void forget_expiry(Queue::iterator entry);
    QueuedMessage dequeue(Queue::iterator entry);

    Totals& totals_;
    List sent_;         ///< in flight on this connection, the oldest first
    List interrupted_;  ///< sent on an earlier connection, to be sent again first
    Queue queue_;
    std::size_t queued_bytes_ = 0;
    /// Bytes of queued bodies as in Totals, and of all messages in flight.
    std::size_t bytes_held_ = 0;
    std::unique_ptr<QueueExpiries> expiries_;  ///< null: no queued message has one

    /// For a queue that was full; null: shares are counted when it is full again.
    std::unique_ptr<QueueShares> shares_;

    std::uint32_t lost_ = 0;
    std::uint16_t free_ahead_ = 0;  ///< number of identifiers after the last one that are known to
                                    ///< be free
    bool shared_ = false;           ///< some messages are of a shared subscription
    const bool is_inbox_;
};

template <class Wanted>
std::vector<Delivery> Outbox::take_sent_if(Wanted wanted) {
    std::vector<Delivery> taken;
    for (List* list : {&sent_, &interrupted_})
        for (auto entry = list->begin(); entry != list->end();) {
            const bool take = wanted(entry->delivery);
            if (take) count_out(entry->delivery);
            if (take && entry->is_noted) forget_identifier(*entry);
            if (take) taken.push_back(std::move(entry->delivery));
            entry = take ? list->erase(entry) : std::next(entry);
        }
    return taken;
}

template <class Wanted>
std::vector<Delivery> Outbox::take_if(OwnerId owner, Wanted wanted) {
    shares_.reset();
    auto taken = take_sent_if([&](const Delivery& each) { return wanted(each, true); });
    for (auto entry = queue_.begin(); entry != queue_.end();) {
        const auto next = std::next(entry);
        if (entry->has_body()) {
            Delivery delivery = entry->delivery(owner);
            if (wanted(delivery, false)) {
                dequeue(entry);
                taken.push_back(std::move(delivery));
            }
        }
        entry = next;
    }
    return taken;
}

}  // namespace pulsegate
