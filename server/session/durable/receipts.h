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
#include "server/base/owner_thread.h"
#include "server/base/recycled.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_messages.h"
#include "server/session/terms/reach.h"
#include "server/session/terms/shard_place.h"

namespace pulsegate {

class Debt;
class PendingReceipt;
class Session;

using DebtRef = boost::intrusive_ptr<Debt>;

/// The receivers of a message that were collected, and the shards that have named them.
struct Collected {
    std::vector<Receiver> receivers{};
    std::vector<unsigned> shards{};
    Reach reach{};  ///< what the other parts have counted
};

/// What is to be done when all other parts of a receipt are settled: it gets a part of its own, and
/// what was collected.
using LastStep = std::function<void(const DebtRef&, Collected)>;

/// What became of a message that no client has published.
struct Published {
    bool refused = false;       ///< by the store: not all are sure to get it
    bool not_retained = false;  ///< although it should be: a limit is reached
    Reach reach{};
};
using OnPublished = std::function<void(const Published&)>;

/// What a packet that waits is, as far as others wait for it.
enum class Held : std::uint8_t { answer, message, suback };

/// An answer to a client that waits until all parts of its receipt are settled.
struct Receipt
    : Recycled<Receipt>,
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    explicit Receipt(ReceiptId id) : id(id) {}

    const ReceiptId id;
    Session* session = nullptr;  ///< null before `answer`, and when its connection has ended
    std::uint32_t open = 1;      ///< parts; one of them is the answer itself
    bool is_refused = false;     ///< a part was: the store does not take it
    Held kind = Held::answer;
    std::uint32_t charge = 0;  ///< to the client
    LastStep last_step{};
    OnPublished report{};   ///< is told before the client is answered, if one is to be
    Published published{};  ///< by the parts that are settled
    Collected collected{};
    Buffer accepted{};
    Buffer refused{};  ///< empty: the client is disconnected instead
};

/// The packets to one client that wait.
struct HeldAnswers : boost::intrusive::list<Receipt, boost::intrusive::constant_time_size<false>> {
    // Both are bounded by what a client may have waiting, and one message more.
    std::uint32_t charge = 0;         ///< bytes that its messages make the gateway keep meanwhile
    std::uint32_t message_bytes = 0;  ///< of the PUBLISH packets among them

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

/// The answers of one shard that wait for a store or for other clients: a PUBACK says that the
/// message is stored, or acknowledged, for everyone who is to get it. A client is answered in the
/// order of its packets (MQTT 5.0, 4.6). It owns the receipts; it belongs to the shard's thread.
class Receipts {
public:
    Receipts(ShardPlace place, ShardLinks& shards) : place_(place), shards_(shards) {}

    /// Is called when all parts of one of the client's answers are settled.
    using SendReady = std::function<void(Session&)>;
    void when_ready(SendReady send) { send_ready_ = std::move(send); }

    /// Opens a receipt, which `answer` closes.
    ReceiptId open();
    /// Adds a part, which must be settled, to a receipt; 0: to a new one.
    ReceiptId add_part(ReceiptId receipt);

    /// The answer may be sent when all parts of the receipt are settled (0: it has none) and the
    /// client's earlier `answers` are sent. An empty `refused` disconnects the client if a part was
    /// refused, and so does any if it awaits its CONNACK, for this is it. `charge`: bytes that the
    /// client makes the gateway keep until then.
    void answer(Session& session, HeldAnswers& answers, ReceiptId receipt, Buffer accepted,
                Buffer refused, std::size_t charge, Held kind);

    /// Null: nobody waits for the answer any more, or not yet.
    Session* session_of(ReceiptId receipt) const { return receipts_.at(receipt)->session; }
    /// Instead of the one that was given to `answer`, and not sent yet.
    void replace_accepted(ReceiptId receipt, Buffer accepted) {
        receipts_.at(receipt)->accepted = std::move(accepted);
    }

    /// As if the store had refused a part of it.
    void refuse(ReceiptId receipt) { receipts_.at(receipt)->is_refused = true; }

    void then(ReceiptId receipt, LastStep last_step);
    /// Calls `report` when all parts are settled, before the answer is sent.
    void watch(ReceiptId receipt, OnPublished report) {
        receipts_.at(receipt)->report = std::move(report);
    }
    /// Instead of `answer`: closes the receipt, and calls `report` when all parts are settled.
    /// `here`: what had become of it on this shard when the receipt was closed.
    void report(ReceiptId receipt, const Published& here, OnPublished report);

    /// One part is settled, of a receipt of this shard or of another.
    void settle(unsigned shard, ReceiptPart part);
    void settle(ReceiptId receipt, bool refused = false) {
        settle(place_.index, {receipt, refused, place_.index});
    }

    // Messages whose receivers here are stored by the publisher's shard, with those of all shards
    // in one unit.

    void begin_collecting(Stamp stamp) { unstored_[stamp]; }
    void stop_collecting(Stamp stamp) { unstored_.erase(stamp); }
    /// If the message is not stored yet, the receipt gets a part that is settled when it is.
    void add_part_if_collected(Stamp stamp, PendingReceipt& receipt);
    /// If it is not stored yet, notes that the owner is done with it, and returns true.
    bool note_done_if_collected(Stamp stamp, OwnerId owner);
    /// Returns who is done with it already.
    std::vector<OwnerId> stored(const MessageStored& message);
    /// Are its receivers being collected, and it is not stored yet?
    bool is_collected(Stamp stamp) const { return unstored_.contains(stamp); }

    /// Does nobody wait for anything?
    bool is_idle() const { return receipts_.empty() && unstored_.empty(); }

    /// Its answer was sent, or nobody waits for it.
    void forget(Receipt& receipt);

    /// The shard ends: what is settled from now on does not matter.
    void close() { closed_ = true; }

    unsigned shard() const { return place_.index; }
    std::size_t size() const { return receipts_.size(); }

private:
    void close_part(Receipt& receipt);

    /// A message whose receivers are collected.
    struct NotStored {
        std::vector<ReceiptId> waiting{};  ///< until it is
        std::vector<OwnerId> done{};       ///< with it, as soon as it is
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

/// One part of a receipt on one shard: it is settled when nobody refers to it any more. What may
/// lose a message that the publisher was promised refers to it. It belongs to the shard's thread.
class Debt : public Recycled<Debt>,
             public boost::intrusive_ref_counter<Debt, boost::thread_unsafe_counter> {
public:
    /// Of a receipt of any shard; `here` are this shard's. `collected` is the stamp of a message
    /// whose receivers are collected, or 0.
    Debt(Receipts& here, unsigned shard, ReceiptId receipt, Stamp collected = 0)
        : here_(here), shard_(shard), receipt_(receipt), collected_(collected) {
        if (collected_ != 0) here_.begin_collecting(collected_);
    }
    ~Debt() {
        if (collected_ != 0 && receivers_.empty()) here_.stop_collecting(collected_);
        here_.settle(shard_, {receipt_, refused_, here_.shard(), std::move(receivers_), reach_});
    }
    Debt(const Debt&) = delete;
    Debt& operator=(const Debt&) = delete;

    /// The store does not take it.
    void refuse() { refused_ = true; }
    void count(Fate fate) {
        refused_ |= fate == Fate::refused;
        reach_.count(fate);
    }

    bool collects() const { return collected_ != 0; }
    /// Does another shard store what is collected?
    bool is_for_another_shard() const { return shard_ != here_.shard(); }
    void collect(Receiver receiver) { receivers_.push_back(std::move(receiver)); }

private:
    Receipts& here_;
    const unsigned shard_;
    const ReceiptId receipt_;
    const Stamp collected_;
    bool refused_ = false;
    Reach reach_;
    std::vector<Receiver> receivers_;
};

/// The receipt of a packet that is being handled: it is opened when something is to be waited for.
class PendingReceipt {
public:
    explicit PendingReceipt(Receipts& receipts) : receipts_(receipts) {}

    /// Nobody waits for an answer.
    void only_count() { only_counts_ = true; }
    bool only_counts() const { return only_counts_; }
    /// A part on this shard; always the same. Null: nobody waits for it.
    DebtRef debt();
    /// Adds a part that others settle. 0: nobody waits for it.
    ReceiptId add_part();
    /// The message is stored when all shards have named its receivers.
    void collect(MessageRef message) { collected_ = std::move(message); }
    /// The one that is published with this receipt is.
    void collect_all() { collects_all_ = true; }
    bool collects_all() const { return collects_all_; }
    /// Null: each shard stores it.
    const MessageRef& collected() const { return collected_; }
    void then(LastStep last_step);
    void count(Fate fate);
    /// Of the message on this shard, but for receivers that are left to later turns.
    const Reach& reach() const { return reach_; }
    /// May others, or later turns, find receivers that are not counted here?
    bool is_open() const { return is_open_; }
    /// 0: nothing is to be waited for. The part on this shard is left to those who refer to it.
    ReceiptId close();

private:
    Receipts& receipts_;
    Stamp stamp() const { return collected_ ? collected_->stamp : 0; }

    ReceiptId id_ = 0;
    MessageRef collected_;
    bool collects_all_ = false;
    bool only_counts_ = false;
    bool is_open_ = false;
    Reach reach_;
    DebtRef debt_;
};

/// Who is told that a message is safe, and what became of it, if anybody is.
class DebtSource {
public:
    DebtSource() = default;
    explicit DebtSource(PendingReceipt* pending) : pending_(pending) {}
    explicit DebtSource(DebtRef debt) : debt_(std::move(debt)) {}

    /// May be null.
    DebtRef debt() { return pending_ ? pending_->debt() : debt_; }
    void count(Fate fate) {
        if (pending_)
            pending_->count(fate);
        else if (debt_)
            debt_->count(fate);
    }

private:
    PendingReceipt* pending_ = nullptr;
    DebtRef debt_;
};

}  // namespace pulsegate
