#pragma once

#include <boost/container/flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/base/memory/recycled.h"
#include "server/session/durable/receipts.h"
#include "server/session/state/outbox.h"

namespace pulsegate {

/// The QoS 1 and 2 exchanges between a session and its client, in both directions (MQTT 5.0, 4.3):
/// the outbox, the answers that wait, and the identifiers of the QoS 2 messages that the client has
/// not released yet. Without an exchange it takes 16 bytes, and about 300 to 800 after an exchange
/// of QoS 2 from the client. It belongs to its session, and to the shard's thread.
///
/// The outbox and the list of answers may be missing while they are empty. Then `outbox` and
/// `answers` return empty ones. Returned references are valid until the next change.
class Exchanges {
public:
    /// These are the exchanges of an inbox. Its outbox exists as long as they do. Call it before
    /// anything else.
    const Outbox& begin_inbox(Outbox::Totals& totals);

    // Messages to the client.

    const Outbox& outbox() const { return flow().outbox; }
    /// The outbox, for a change that adds something to it. Creates the outbox if there is none.
    Outbox& open_outbox(Outbox::Totals& totals) { return flowing(totals).outbox; }
    /// Calls the outbox's method, or a function with the outbox, and returns its result. Then frees
    /// the outbox if nothing is left in it. Without an outbox, it returns an empty result.
    template <class Change, class... Arguments>
    auto change_outbox(Change change, Arguments&&... arguments);

    /// See Outbox. They keep the last packet identifier, which outlives the outbox.
    Outbox::InFlight& send(Outbox::Totals& totals, const Delivery& delivery);
    Outbox::InFlight* send_next(std::uint16_t window, OwnerId owner);
    /// Packet identifiers begin after this one, so that they differ from those before a restart.
    void begin_after(std::uint16_t packet_id) { last_packet_id_ = packet_id; }
    std::uint16_t last_packet_id() const { return last_packet_id_; }

    /// Is there no exchange, or only a queue that has lost no message?
    bool has_only_queue() const {
        return !flow_ ||
               (flow_->outbox.has_only_queue() && flow_->answers.empty() && !flow_->received);
    }

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

    const HeldAnswers& answers() const { return flow().answers; }
    /// For a change. Call `free_if_idle` after answers were removed.
    HeldAnswers& open_answers(Outbox::Totals& totals) { return flowing(totals).answers; }
    void free_if_idle();

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
        HeldAnswers answers;
        std::unique_ptr<Received> received;  ///< null before the first one
    };
    static_assert(sizeof(Flow) <= 152);  // the next smaller allocator size than 160

    /// The number of released messages that are remembered in case their PUBCOMP is lost: the
    /// default receive-maximum, which bounds the messages that a client has in flight.
    static constexpr std::size_t released_kept = 256;

    const Flow& flow() const { return flow_ ? *flow_ : no_flow(); }
    static const Flow& no_flow();
    Flow& flowing(Outbox::Totals& totals);

    static void remember_released(Received& received, std::uint16_t packet_id);

    /// Null without exchanges and queued messages. It is kept once the client has sent a message of
    /// QoS 2.
    std::unique_ptr<Flow> flow_;
    std::uint16_t last_packet_id_ = 0;
};

template <class Change, class... Arguments>
auto Exchanges::change_outbox(Change change, Arguments&&... arguments) {
    using Result = std::invoke_result_t<Change, Outbox&, Arguments...>;
    if (!flow_) return Result();
    if constexpr (std::is_void_v<Result>) {
        std::invoke(change, flow_->outbox, std::forward<Arguments>(arguments)...);
        free_if_idle();
    } else {
        Result result = std::invoke(change, flow_->outbox, std::forward<Arguments>(arguments)...);
        free_if_idle();
        return result;
    }
}

}  // namespace pulsegate
