#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/session/broker.h"
#include "server/store/ledger.h"

namespace pulsegate {

/// A link that keeps the bytes for its client until the test reads them. Endings take effect at the
/// end of the turn, in `BrokerCluster::end_turn`.
class KeptLink final : public Link {
public:
    explicit KeptLink(unsigned home) : shard(home) {}

    void send(std::string_view packets) override {
        if (!ending) bytes.append(packets);
    }
    void end(const Ending& why) override {
        if (!ending) ending = why;
    }
    std::size_t backlog() const override { return stuck ? std::size_t{1} << 30 : 0; }
    void notify_when_drained() override { notify_drained = true; }
    bool broken() const override { return false; }
    Millis last_packet() const override { return heard; }
    std::string peer() const override { return "a client"; }
    void set_limit(Millis) override {}
    void set_largest_packet(std::uint32_t) override {}

    const unsigned shard;
    std::string bytes;
    std::optional<Ending> ending;
    bool notify_drained = false;
    bool stuck = false;  ///< its socket accepts no bytes
    Millis heard = 0;
};

/// The brokers of a gateway's shards without the gateway: no sockets, no threads, and a clock that
/// only the test moves. Messages from one shard to another wait until the test delivers them, in
/// order between these two shards and in any order otherwise.
class BrokerCluster {
public:
    using InTransit = std::variant<MessageRef, ShardMessage>;

    /// A message that a broker forwarded, and the shards that it was not sent to, because their
    /// Interest has no subscriber for it.
    struct Forwarded {
        MessageRef message;
        std::vector<unsigned> spared;
    };

    BrokerCluster(const BrokerSettings& settings, unsigned shards);

    unsigned shards() const { return static_cast<unsigned>(nodes_.size()); }
    Broker& broker(unsigned shard) { return nodes_[shard]->broker; }
    /// Length of the longest queue of a shard, and the number of sessions with a queue.
    std::size_t longest_queue(unsigned shard) const;
    std::size_t queues(unsigned shard) const;
    const Interest& interest(unsigned shard) const { return nodes_[shard]->own_interest; }

    /// The sum of a counter over all shards.
    std::uint64_t sum(std::uint64_t Counters::*counter) const;

    /// Adds a link, which must be passed to a broker with the next call.
    void adopt(KeptLink& link) { links_.push_back(&link); }

    /// As a shard does after each event: delivers to those who are left, unless `in_slices`, ends
    /// links that are to end, and reports drained ones.
    void end_turn();

    bool has_messages() const { return !pairs_with_messages().empty(); }
    using Pair = std::pair<unsigned, unsigned>;
    std::vector<Pair> pairs_with_messages() const;
    /// Delivers the oldest message between two shards, and returns it if it is a published one.
    MessageRef deliver(Pair pair);

    /// Messages that were forwarded since the last call.
    std::vector<Forwarded> take_forwarded() { return std::exchange(forwarded_, {}); }

    Millis now = 1'000'500;
    MemoryState memory = MemoryState::plenty;
    bool is_store_full = false;
    bool in_slices = false;   ///< the test calls `Broker::go_on`
    Ledger* store = nullptr;  ///< null: nothing is stored

private:
    struct Node final : BrokerHost {
        Node(BrokerCluster& all, const BrokerSettings& settings, unsigned shard, unsigned count)
            : cluster(all),
              index(shard),
              broker(settings, shard, count, own_interest, counters, *this) {}

        void forward(const MessageRef& message, std::optional<unsigned> inbox,
                     PendingReceipt* receipt) override {
            cluster.forward(index, message, inbox, receipt);
        }
        void send(unsigned shard, ShardMessage message) override {
            cluster.in_transit_[{index, shard}].push_back(std::move(message));
        }
        Interest& interest(unsigned shard) override { return cluster.nodes_[shard]->own_interest; }
        void record(PresenceChange) override {}
        MemoryState memory() const override { return cluster.memory; }
        bool stores() const override { return cluster.store != nullptr; }
        OwnerId next_owner() override { return ++cluster.last_owner_; }
        bool is_store_full() const override { return cluster.is_store_full; }
        void submit(std::vector<Operation> operations, bool, std::uint32_t) override {
            cluster.submit(index, std::move(operations));
        }
        void read_messages(SessionId session, std::vector<Stamp> stamps) override {
            cluster.read_messages(index, session, std::move(stamps));
        }
        void call_store_overdue(Millis when) override { cluster.overdue_[index] = when; }
        // Delayed messages need a gateway.
        std::uint32_t next_delayed_number() override { return 1; }
        std::int64_t next_delayed() const override { return std::int64_t{1} << 40; }
        DelayedTotal delayed_total(const std::optional<std::string>&) const override { return {}; }
        void take_delayed(std::int64_t, std::size_t) override {}

        BrokerCluster& cluster;
        const unsigned index;
        Interest own_interest;
        Counters counters;
        Broker broker;
    };

    void forward(unsigned from, const MessageRef& message, std::optional<unsigned> inbox,
                 PendingReceipt* receipt);
    void submit(unsigned from, std::vector<Operation> operations);
    void read_messages(unsigned from, SessionId session, std::vector<Stamp> stamps);

    const BrokerSettings settings_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::map<Pair, std::deque<InTransit>> in_transit_;
    std::list<KeptLink*> links_;
    std::vector<Forwarded> forwarded_;
    OwnerId last_owner_ = 0;
    std::map<unsigned, Millis> overdue_;  ///< by shard, when what is not acknowledged is stored
};

}  // namespace pulsegate
