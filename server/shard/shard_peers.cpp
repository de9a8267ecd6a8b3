#include "server/shard/shard_peers.h"

#include <algorithm>

#include "server/shard/data_store.h"
#include "server/shard/item_weight.h"
#include "server/shard/shard.h"

namespace pulsegate {

void ShardPeers::forward(const MessageRef& message, const Interest::Topic& topic,
                         std::optional<unsigned> inbox, PendingReceipt* receipt) {
    thread_.assert_here();
    if (shards_.size() == 1) return;
    const bool for_all = message->retained;
    for (unsigned shard = 0; shard < shards_.size(); ++shard) {
        if (shard == index_) continue;
        Shard& peer = *shards_[shard];
        if (!for_all && shard != inbox && !peer.interest().may_match(topic)) continue;
        Shard::Item item = message;
        const ReceiptId part = receipt ? receipt->add_part() : 0;
        if (part != 0)
            item = ShardMessage(
                TrackedMessage{message, index_, part, receipt->collected() != nullptr});
        if (peer.send(std::move(item)) > most_weight_waiting) congested_ = true;
    }
}

bool ShardPeers::congested() {
    thread_.assert_here();
    const auto behind = [](const Shard* shard) {
        return shard->mailbox_weight() > most_weight_waiting;
    };
    if (congested_) congested_ = std::any_of(shards_.begin(), shards_.end(), behind);
    return congested_;
}

Interest& ShardPeers::interest(unsigned shard) { return shards_[shard]->interest(); }

void ShardPeers::send(unsigned shard, ShardMessage message) {
    thread_.assert_here();
    if (shards_[shard]->send(std::move(message)) > most_weight_waiting && shard != index_)
        congested_ = true;
}

void ShardPeers::later(OwnTurn turn) {
    thread_.assert_here();
    shards_[index_]->later(std::move(turn));
}

void ShardPeers::deliver_later() {
    thread_.assert_here();
    shards_[index_]->deliver_later();
}

bool ShardPeers::stores() const { return store_.is_kept(); }

OwnerId ShardPeers::next_owner() { return store_.owners().next(); }

bool ShardPeers::takes_no_new_owners() const { return store_.owners().are_nearly_used_up(); }

bool ShardPeers::is_store_full() const { return store_.is_full(); }

bool ShardPeers::store_takes_nothing_new() const { return store_.takes_nothing_new(); }

bool ShardPeers::store_refuses() const { return store_.refuses(); }

bool ShardPeers::store_awaits_units() const { return store_.ledger().awaits_units(); }

void ShardPeers::submit(std::vector<Operation> operations, bool urgent, std::uint32_t generation) {
    Shard& shard = *shards_[index_];
    Unit unit{std::move(operations),
              [&shard](Outcome outcome, std::vector<Operation>& given_back) {
                  shard.send(LedgerAnswer(unit_done(outcome, given_back)));
              },
              index_ + 1, generation};
    if (urgent)
        store_.ledger().submit(std::move(unit));
    else
        store_.ledger().submit_lazily(std::move(unit));
}

void ShardPeers::read_messages(SessionId session, std::vector<Stamp> stamps) {
    Shard& shard = *shards_[index_];
    auto answer = [&shard, session, stamps](Outcome outcome, const auto& stored) {
        shard.send(LedgerAnswer(messages_read(session, outcome, stamps, stored, monotonic_now())));
    };
    store_.ledger().read_messages(std::move(stamps), std::move(answer));
}

std::uint32_t ShardPeers::next_delayed_number() { return store_.next_delayed_number(); }

std::int64_t ShardPeers::next_delayed() const { return store_.ledger().next_delayed(); }

DelayedTotal ShardPeers::delayed_total(const std::optional<std::string>& user) const {
    return store_.ledger().delayed_total(user);
}

DelayedClaimRef ShardPeers::claim_delayed(const std::string& user, const DelayedTotal& room,
                                          const DelayedSums::Fits& fits) {
    return store_.ledger().claim_delayed(user, room, fits);
}

void ShardPeers::take_delayed(std::int64_t before, std::size_t most) {
    Shard& shard = *shards_[index_];
    store_.ledger().take_delayed(before, most, [&shard](Outcome, std::vector<PutDelayed> taken) {
        shard.send(LedgerAnswer(DelayedDue{std::move(taken)}));
    });
}

void ShardPeers::call_store_overdue(Millis when) { shards_[index_]->call_store_overdue(when); }

void ShardPeers::record(PresenceChange change) {
    thread_.assert_here();
    if (!events_) return;
    shards_[index_]->guard();
    events_->write(to_json(change));
}

MemoryState ShardPeers::memory() const {
    if (admission_.used_up()) return MemoryState::used_up;
    return admission_.scarce() ? MemoryState::scarce : MemoryState::plenty;
}

}  // namespace pulsegate
