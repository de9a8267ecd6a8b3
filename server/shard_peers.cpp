#include "server/shard_peers.h"

#include <algorithm>

#include "server/item_weight.h"
#include "server/shard.h"

namespace pulsegate {

void ShardPeers::forward(const MessageRef& message, std::optional<unsigned> inbox) {
    thread_.assert_here();
    const bool for_all = message->stamp != 0;  // retained: every shard keeps it
    const Interest::Topic topic(message->topic);
    for (unsigned shard = 0; shard < shards_.size(); ++shard) {
        if (shard == index_) continue;
        Shard& peer = *shards_[shard];
        const bool wanted = for_all || shard == inbox || peer.interest().wants(topic);
        if (wanted && peer.send(message) > most_weight_waiting) congested_ = true;
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

void ShardPeers::record(PresenceChange change) {
    thread_.assert_here();
    if (events_) events_->write(to_json(change));
}

MemoryState ShardPeers::memory() const {
    if (admission_.exceeded()) return MemoryState::exceeded;
    return admission_.scarce() ? MemoryState::scarce : MemoryState::plenty;
}

}  // namespace pulsegate
