#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/encode.h"
#include "server/base/memory/recycled.h"
#include "server/base/owner_thread.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_messages.h"
#include "server/session/terms/published.h"
#include "server/session/terms/reach.h"
#include "server/session/terms/shard_place.h"

namespace pulsegate {

class OpenPart;
class PendingReceipt;
class Session;

using PartRef = boost::intrusive_ptr<OpenPart>;

/// The collected receivers of a message, and the shards that have named them.
struct Collected {
    std::vector<Receiver> receivers{};
    std::vector<unsigned> shards{};
    Reach reach{};  ///< the counts of the other parts
};

/// A step that runs when all other parts of a receipt are settled. It gets its own part and the
/// collected receivers.
using LastStep = std::function<void(const PartRef&, Collected)>;

/// The kind of a waiting packet, as far as other parts need it.
enum class Held : std::uint8_t { answer, message, suback };

/// An answer to a client that waits until all parts of its receipt are settled.
struct Receipt
    : Recycled<Receipt>,
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    explicit Receipt(ReceiptId id) : id(id) {}

    const ReceiptId id;
    Session* session = nullptr;  ///< null before `answer`, and when its connection has ended
    std::uint32_t open = 1;      ///< parts; one of them is the answer itself
    bool is_refused = false;     ///< a part was refused by the store
    Held kind = Held::answer;
    std::uint32_t charge = 0;  ///< bytes that are charged to the client
    LastStep last_step{};
    OnPublished report{};   ///< is called before the client is answered, if there is a client
    Published published{};  ///< result of the settled parts
    Collected collected{};
    Buffer accepted{};
    Buffer refused{};  ///< empty: the client is disconnected instead
};

/// The waiting packets to one client.
struct HeldAnswers : boost::intrusive::list<Receipt, boost::intrusive::constant_time_size<false>> {
    // Both are bounded by the limit of waiting data per client, plus one message.
    std::uint32_t charge = 0;         ///< bytes that its messages make the gateway keep meanwhile
    std::uint32_t message_bytes = 0;  ///< bytes of the PUBLISH packets among them

    void count(const Receipt& added) {
        charge += added.charge;
        message_bytes += message_bytes_of(added);
    }
    void count_out(const Receipt& removed) {
        charge -= removed.charge;
        message_bytes -= message_bytes_of(removed);
    }
    bool has_suback() const {
        return std::ranges::any_of(*this,
                                   [](const Receipt& each) { return each.kind == Held::suback; });
    }

private:
    static std::uint32_t message_bytes_of(const Receipt& each) {
        return each.kind == Held::message ? static_cast<std::uint32_t>(each.accepted.size()) : 0;
    }
};

/// The answers of one shard that wait for the store or for other clients: a PUBACK says that the
/// message is stored for, or acknowledged by, each receiver. A client is answered in the order of
/// its packets (MQTT 5.0, 4.6). It owns the receipts; it belongs to the shard's thread.
class Receipts {
public:
    Receipts(ShardPlace place, ShardLinks& shards) : place_(place), shards_(shards) {}

    /// Called when all parts of one of the client's answers are settled.
    using SendReady = std::function<void(Session&)>;
    void when_ready(SendReady send) { send_ready_ = std::move(send); }

    /// Opens a receipt, which `answer` closes.
    ReceiptId open();
    /// Adds a part to a receipt; 0: to a new receipt. The part must be settled later.
    ReceiptId add_part(ReceiptId receipt);

    /// The answer may be sent when all parts of the receipt are settled (0: it has none) and the
    /// client's earlier `answers` are sent. If a part was refused, the client is disconnected when
    /// `refused` is empty, or when the answer is its CONNACK. `charge` is the number of bytes that
    /// the client makes the gateway keep until then.
    void answer(Session& session, HeldAnswers& answers, ReceiptId receipt, Buffer accepted,
                Buffer refused, std::size_t charge, Held kind);

    /// The session that waits for the answer; null if there is none yet, or no longer.
    Session* session_of(ReceiptId receipt) const { return receipts_.at(receipt)->session; }
    /// Replaces the packet that was given to `answer`, if it is not sent yet.
    void replace_accepted(ReceiptId receipt, Buffer accepted) {
        receipts_.at(receipt)->accepted = std::move(accepted);
    }

    /// Treats the receipt as if the store had refused a part of it.
    void refuse(ReceiptId receipt) { receipts_.at(receipt)->is_refused = true; }

    void then(ReceiptId receipt, LastStep last_step);
    /// Calls `report` when all parts are settled, before the answer is sent.
    void watch(ReceiptId receipt, OnPublished report);
    /// Instead of `answer`: closes the receipt, and calls `report` when all parts are settled.
    /// `here` is the result on this shard at the time of closing.
    void report(ReceiptId receipt, const Published& here, OnPublished report);

    /// Settles one part of a receipt of this or another shard.
    void settle(unsigned shard, SettledPart part);
    void settle(ReceiptId receipt, bool refused = false) {
        settle(place_.index, {receipt, refused, place_.index});
    }

    // Collected messages: the publisher's shard stores the receivers of this shard, together with
    // the receivers of all shards, in one unit.

    void begin_collecting(Stamp stamp) { unstored_[stamp]; }
    /// No receiver of this shard was collected, so no other shard says when it is stored.
    void stop_collecting(Stamp stamp);
    /// If the message is not stored yet, the receipt gets a part that is settled when it is.
    void add_part_if_collected(Stamp stamp, PendingReceipt& receipt);
    /// If the message is not stored yet, notes that the owner is done with it, and returns true.
    bool note_done_if_collected(Stamp stamp, OwnerId owner);
    /// Returns the owners that are done with it already.
    std::vector<OwnerId> stored(const MessageStored& message);
    /// Are its receivers being collected while it is not stored yet?
    bool is_collected(Stamp stamp) const { return unstored_.contains(stamp); }

    /// Is there no open receipt and no collected message?
    bool is_idle() const { return receipts_.empty() && unstored_.empty(); }

    /// The receipt's answer was sent, or its client is gone.
    void forget(Receipt& receipt);

    /// The shard ends: parts that are settled from now on have no effect.
    void close() { closed_ = true; }

    unsigned shard() const { return place_.index; }
    std::size_t size() const { return receipts_.size(); }

private:
    void close_part(Receipt& receipt);

    /// A message with collected receivers.
    struct NotStored {
        std::vector<ReceiptId> waiting{};  ///< receipts that wait until it is stored
        std::vector<OwnerId> done{};       ///< owners that are done with it when it is stored
    };

    const ShardPlace place_;
    ShardLinks& shards_;
    SendReady send_ready_;
    boost::unordered_flat_map<ReceiptId, std::unique_ptr<Receipt>> receipts_;
    boost::unordered_flat_map<Stamp, NotStored> unstored_;
    ReceiptId last_ = 0;
    bool closed_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

/// One part of a receipt on one shard. It is settled when its last reference is gone. Every object
/// that could lose a promised message holds a reference. It belongs to the shard's thread.
class OpenPart : public Recycled<OpenPart>,
                 public boost::intrusive_ref_counter<OpenPart, boost::thread_unsafe_counter> {
public:
    /// A part of a receipt of any shard; `here` has this shard's receipts. `collected` is the stamp
    /// of a message with collected receivers, or 0.
    OpenPart(Receipts& here, unsigned shard, ReceiptId receipt, Stamp collected = 0,
             bool is_retried = false)
        : here_(here),
          shard_(shard),
          receipt_(receipt),
          collected_(collected),
          is_retried_(is_retried) {
        if (collected_ != 0) here_.begin_collecting(collected_);
    }
    ~OpenPart() {
        if (collected_ != 0 && receivers_.empty()) here_.stop_collecting(collected_);
        here_.settle(shard_, {receipt_, refused_, here_.shard(), std::move(receivers_), reach_});
    }
    OpenPart(const OpenPart&) = delete;
    OpenPart& operator=(const OpenPart&) = delete;

    /// The store refuses the operation of this part.
    void refuse() { refused_ = true; }
    /// If the store refuses the operation, the part is held until the store accepts it.
    void await_retries() { is_retried_ = true; }
    bool awaits_retries() const { return is_retried_; }
    void count(DeliveryOutcome outcome) {
        refused_ |= outcome == DeliveryOutcome::refused;
        reach_.count(outcome);
    }

    bool collects() const { return collected_ != 0; }
    /// Does another shard store the collected receivers?
    bool is_for_another_shard() const { return shard_ != here_.shard(); }
    void collect(Receiver receiver) { receivers_.push_back(std::move(receiver)); }

private:
    Receipts& here_;
    const unsigned shard_;
    const ReceiptId receipt_;
    const Stamp collected_;
    bool is_retried_;
    bool refused_ = false;
    Reach reach_;
    std::vector<Receiver> receivers_;
};

/// The receipt of a packet that is being handled. It is opened when there is something to wait for.
class PendingReceipt {
public:
    explicit PendingReceipt(Receipts& receipts) : receipts_(receipts) {}

    /// Counts receivers only: no answer waits for this receipt.
    void only_count() { only_counts_ = true; }
    bool only_counts() const { return only_counts_; }
    /// See OpenPart. Call it before anything else.
    void await_retries() { is_retried_ = true; }
    /// This shard's part; each call returns the same one. Null if no answer waits for it.
    PartRef part();
    /// Adds a part that another shard settles. Returns 0 if no answer waits for it.
    ReceiptId add_part();
    /// The message is stored when all shards have named its receivers.
    void collect(MessageRef message) { collected_ = std::move(message); }
    /// Collects the receivers of the message that is published with this receipt.
    void collect_all() { collects_all_ = true; }
    bool collects_all() const { return collects_all_; }
    /// Null: each shard stores it.
    const MessageRef& collected() const { return collected_; }
    void then(LastStep last_step);
    void count(DeliveryOutcome outcome);
    /// The reach of the message on this shard, without receivers that are left for later rounds.
    const Reach& reach() const { return reach_; }
    /// Can other shards or later rounds find receivers that are not counted here?
    bool is_open() const { return is_open_; }
    /// Returns 0 if there is nothing to wait for. References may keep this shard's part open.
    ReceiptId close();

private:
    Receipts& receipts_;
    Stamp stamp() const { return collected_ ? collected_->stamp : 0; }

    ReceiptId id_ = 0;
    MessageRef collected_;
    bool collects_all_ = false;
    bool only_counts_ = false;
    bool is_retried_ = false;
    bool is_open_ = false;
    Reach reach_;
    PartRef part_;
};

/// Where the result for each receiver of a message is counted: in a part, in a pending receipt, or
/// nowhere.
class PartSource {
public:
    PartSource() = default;
    explicit PartSource(PendingReceipt* pending) : pending_(pending) {}
    explicit PartSource(PartRef part) : part_(std::move(part)) {}

    /// May be null.
    PartRef part() { return pending_ ? pending_->part() : part_; }
    void count(DeliveryOutcome outcome) {
        if (pending_)
            pending_->count(outcome);
        else if (part_)
            part_->count(outcome);
    }

private:
    PendingReceipt* pending_ = nullptr;
    PartRef part_;
};

}  // namespace pulsegate
