#pragma once

#include <boost/container/flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/base/recycled.h"
#include "server/session/durable/receipts.h"
#include "server/session/state/outbox.h"

namespace pulsegate {

/// The QoS 1 and 2 exchanges between a session and its client, in both directions (MQTT 5.0, 4.3):
/// an outbox, and the identifiers of the QoS 2 messages that the client has not released yet.
/// Without an exchange it takes 16 bytes, and about 300 to 800 after an exchange of QoS 2 from the
/// client. It belongs to its session, and to the shard's thread.
///
/// Most of its methods forward to the outbox, which exists only while there is a message. Returned
/// pointers are valid until the next change.
class Exchanges {
public:
    /// These are the exchanges of an inbox. Its outbox exists as long as they do. Call it before
    /// anything else.
    const Outbox& begin_inbox(Outbox::Totals& totals);

    const Outbox& inbox() const { return flow_->outbox; }

    // Messages to the client; see Outbox.

    bool must_wait(std::uint16_t window) const { return flow_ && flow_->outbox.must_wait(window); }
    Outbox::InFlight& send(Outbox::Totals& totals, const Delivery& delivery);
    void restore(Outbox::Totals& totals, Delivery delivery, std::uint16_t packet_id, bool released);
    /// See Outbox.
    void adopt(Outbox::Totals& totals, std::vector<Outbox::Moved> moved);
    void set_perhaps_sent(const std::vector<Stamp>& stamps) {
        if (flow_) flow_->outbox.set_perhaps_sent(stamps);
    }
    /// Packet identifiers begin after this one, so that they differ from those before a restart.
    void begin_after(std::uint16_t packet_id) { last_packet_id_ = packet_id; }
    std::uint16_t last_packet_id() const { return last_packet_id_; }
    void enqueue(Outbox::Totals& totals, const Delivery& delivery, bool perhaps_sent = false);
    void enqueue(Outbox::Totals& totals, Queue messages);
    void merge(Outbox::Totals& totals, Queue messages);
    void order_last() { flow_->outbox.order_last(); }
    Outbox::InFlight* send_next(std::uint16_t window, OwnerId owner);
    Queue put_bodies(const std::vector<Stamp>& asked, const std::vector<MessageRef>& found);
    void discard(std::uint16_t packet_id);
    Outbox::Effect on_puback(std::uint16_t packet_id);
    std::uint32_t sent_at(std::uint16_t packet_id) const {
        return flow_ ? flow_->outbox.sent_at(packet_id) : 0;
    }
    Outbox::Effect on_pubrec(std::uint16_t packet_id, bool refused);
    Outbox::Effect on_pubcomp(std::uint16_t packet_id);
    void interrupt();
    std::optional<QueuedMessage> take_surplus(SenderShares::Sender sender, std::size_t bytes) {
        return flow_ ? flow_->outbox.take_surplus(sender, bytes) : std::nullopt;
    }
    Queue take_expired(Millis now) {
        if (!flow_) return {};
        Queue expired = flow_->outbox.take_expired(now);
        if (!expired.empty()) forget_if_idle();
        return expired;
    }
    template <class Wanted>
    Queue take_queued_if(Wanted wanted) {
        if (!flow_) return {};
        Queue taken = flow_->outbox.take_queued_if(wanted);
        forget_if_idle();
        return taken;
    }
    Queue take_queue();
    Queue take_from_inbox(bool session_ends);
    std::vector<Stamp> find_from_inbox(const std::vector<Stamp>& stamps, OwnerId inbox) {
        if (!flow_) return {};
        return flow_->outbox.find_from_inbox(stamps, inbox);
    }
    template <class Wanted>
    std::vector<Delivery> take_if(OwnerId owner, Wanted wanted);
    template <class Store>
    void for_each_unstored(Store store) {
        if (flow_) flow_->outbox.for_each_unstored(store);
    }
    template <class Visit>
    void for_each_to_note(Visit visit) {
        if (flow_) flow_->outbox.for_each_to_note(visit);
    }
    std::size_t count_lost() { return flow_->outbox.count_lost(); }
    std::size_t take_lost();

    /// Null if there is no exchange and no queued message.
    const Outbox* outbox() const {
        const bool is_there = flow_ && !(flow_->outbox.is_inbox() && flow_->outbox.idle());
        return is_there ? &flow_->outbox : nullptr;
    }
    /// Is there no exchange, or only a queue that has lost no message?
    bool has_only_queue() const {
        return !flow_ ||
               (flow_->outbox.has_only_queue() && flow_->held.empty() && !flow_->received);
    }
    /// Messages for the next connection.
    std::size_t waiting() const {
        return flow_ ? flow_->outbox.queued() + flow_->outbox.interrupted() : 0;
    }
    bool unsent() const { return flow_ && flow_->outbox.unsent(); }
    bool awaits_body() const { return flow_ && flow_->outbox.awaits_body(); }
    const QueuedMessage* next_queued() const {
        return flow_ ? flow_->outbox.next_queued() : nullptr;
    }
    std::size_t in_flight() const { return flow_ ? flow_->outbox.in_flight() : 0; }

    // QoS 2 messages from the client, by packet identifier, up to their PUBREL.

    bool unreleased(std::uint16_t packet_id) const {
        return flow_ && flow_->received && flow_->received->unreleased.contains(packet_id);
    }
    std::size_t unreleased_count() const {
        return flow_ && flow_->received ? flow_->received->unreleased.size() : 0;
    }
    /// A 3.1.1 client may leave as many unreleased as there are identifiers.
    std::size_t bytes_of_unreleased() const {
        return 2 * sizeof(std::uint16_t) * unreleased_count();
    }
    void received(Outbox::Totals& totals, std::uint16_t packet_id);
    /// Returns false if there is no such message, and none with this identifier was released
    /// recently. A client that has lost its connection before the PUBCOMP releases the message
    /// again (MQTT 5.0, 4.4).
    bool release(std::uint16_t packet_id);

    /// The state of QoS 2 messages from the client, for another process.
    struct Taken {
        std::vector<std::uint16_t> unreleased{};
        std::vector<std::uint16_t> released{};  ///< the latest ones, the oldest first
    };
    Taken taken() const;
    void adopt(Outbox::Totals& totals, const Taken& taken);

    // Waiting answers to the client; see Receipts.

    /// The waiting answers; null if none waits.
    HeldAnswers* held() { return flow_ && !flow_->held.empty() ? &flow_->held : nullptr; }
    std::size_t held_charge() const { return flow_ ? flow_->held.charge : 0; }
    /// Bytes of waiting PUBLISH packets; all other packets to the client wait behind them.
    std::size_t held_message_bytes() const { return flow_ ? flow_->held.message_bytes : 0; }
    bool holds_suback() const { return flow_ && flow_->held.has_suback(); }
    HeldAnswers& held(Outbox::Totals& totals) { return flowing(totals).held; }
    void forget_held_if_empty() { forget_if_idle(); }

    /// Drops everything: the session ends, or the client starts a clean one.
    void clear();

private:
    /// QoS 2 messages from the client.
    struct Received {
        boost::container::flat_set<std::uint16_t> unreleased;
        std::vector<std::uint16_t> released;  ///< the latest ones, in any order
        std::size_t oldest = 0;               ///< the index for the next one, once the list is full
    };

    struct Flow : Recycled<Flow> {
        explicit Flow(Outbox::Totals& totals, bool is_inbox = false) : outbox(totals, is_inbox) {}

        Outbox outbox;
        HeldAnswers held;
        std::unique_ptr<Received> received;  ///< null before the first one
    };
    static_assert(sizeof(Flow) <= 152);  // the next smaller allocator size than 160

    /// The number of released messages that are remembered in case their PUBCOMP is lost: the
    /// default receive-maximum, which bounds the messages that a client has in flight.
    static constexpr std::size_t released_kept = 256;

    Flow& flowing(Outbox::Totals& totals);
    void forget_if_idle();
    Outbox::Effect settled_if(Outbox::Effect effect);

    static void remember_released(Received& received, std::uint16_t packet_id);

    /// Null without exchanges and queued messages. It is kept once the client has sent a message of
    /// QoS 2.
    std::unique_ptr<Flow> flow_;
    std::uint16_t last_packet_id_ = 0;
};

template <class Wanted>
std::vector<Delivery> Exchanges::take_if(OwnerId owner, Wanted wanted) {
    if (!flow_) return {};
    auto taken = flow_->outbox.take_if(owner, wanted);
    forget_if_idle();
    return taken;
}

}  // namespace pulsegate
