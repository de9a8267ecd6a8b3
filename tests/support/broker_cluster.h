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
#include "server/store/ledger/ledger.h"

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
    void connack_sent() override {}
    bool is_lost() const override { return is_broken; }
    bool is_cut_off() const override { return is_node_lost || is_node_away; }
    bool has_lost_node() const override { return is_node_lost; }
    bool is_ending() const override { return ending.has_value(); }
    Millis last_packet() const override { return heard; }
    std::string peer() const override { return "a client"; }
    std::string address() const override { return from; }
    const Address& origin_address() const override { return origin; }
    std::string_view listener() const override { return by; }
    void set_limit(Millis limit) override { limit_ = limit; }
    Millis limit() const override { return limit_; }
    void set_largest_packet(std::uint32_t) override {}

    const unsigned shard;
    std::string bytes;
    std::optional<Ending> ending;
    bool notify_drained = false;
    bool stuck = false;         ///< its socket accepts no bytes
    bool is_broken = false;     ///< its connection has failed, and its session is told later
    bool is_node_lost = false;  ///< it belonged to another node, which is gone
    bool is_node_away = false;  ///< it belongs to another node, which is out of reach
    Millis heard = 0;
    std::string from = "127.0.0.1";
    Address origin;
    std::string by = "mqtt://127.0.0.1:1883";

private:
    Millis limit_ = 0;
};

/// The brokers of a gateway's shards without the gateway: no sockets, no threads, and a clock that
/// only the test moves. Messages from one shard to another wait until the test delivers them, in
/// order between these two shards and in any order otherwise.
class BrokerCluster {
public:
    using InTransit = std::variant<MessageRef, ShardMessage, OwnTurn, LedgerAnswer>;

    /// A message that a broker forwarded, and the shards that it was not sent to, because their
    /// Interest has no subscriber for it.
    struct Forwarded {
        MessageRef message;
        std::vector<unsigned> spared;
    };

    /// With a store the brokers begin with what it holds; it was not loaded before.
    BrokerCluster(const BrokerSettings& settings, unsigned shards, Ledger* store = nullptr,
                  Millis now = 1'000'500);

    unsigned shards() const { return static_cast<unsigned>(nodes_.size()); }
    Broker& broker(unsigned shard) { return nodes_[shard]->broker; }
    /// Length of the longest queue of a shard, and the number of sessions with a queue.
    std::size_t longest_queue(unsigned shard) const;
    std::size_t queues(unsigned shard) const;
    const Interest& interest(unsigned shard) const { return nodes_[shard]->own_interest; }

    const Counters& counters(unsigned shard) const { return nodes_[shard]->counters; }
    /// The sum of a counter over all shards.
    std::uint64_t sum(std::uint64_t Counters::*counter) const;

    /// As a gateway does that is stopped: all users go offline, unless it was drained, then all
    /// connections end, and what is to be stored is handed in. What is on its way between shards is
    /// not delivered any more.
    void stop(Broker::UsersAtStop users = Broker::UsersAtStop::go_offline);

    /// Adds a link, which must be passed to a broker with the next call.
    void adopt(KeptLink& link) { links_.push_back(&link); }

    /// As a shard does after each event: delivers to the remaining receivers, unless `in_slices`,
    /// ends links that are to end, and reports drained ones.
    void end_turn();

    bool has_messages() const { return !pairs_with_messages().empty(); }
    using Pair = std::pair<unsigned, unsigned>;
    std::vector<Pair> pairs_with_messages() const;
    /// Delivers the oldest message between two shards, and returns it if it is a published one.
    MessageRef deliver(Pair pair);

    /// Messages that were forwarded since the last call.
    std::vector<Forwarded> take_forwarded() { return std::exchange(forwarded_, {}); }

    /// What the store said when the brokers were restored.
    const Ledger::Start& start() const { return start_; }

    /// As a shard's timer does: stores what clients have not acknowledged in time.
    void store_overdue();

    std::vector<PresenceChange> recorded;  ///< as for `--events`
    Millis now;
    MemoryState memory = MemoryState::plenty;
    bool is_store_full = false;
    bool store_takes_nothing_new = false;
    OwnerNumbers owners;
    std::size_t reads = 0;   ///< of messages in the store
    bool in_slices = false;  ///< the test calls `Broker::go_on`
    Ledger* const store;     ///< null: nothing is stored

private:
    struct Node final : BrokerHost {
        Node(BrokerCluster& all, const BrokerSettings& settings, unsigned shard, unsigned count)
            : cluster(all),
              index(shard),
              broker(settings, shard, count, own_interest, counters, *this) {}

        void forward(const MessageRef& message, const Interest::Topic& topic,
                     std::optional<unsigned> inbox, PendingReceipt* receipt) override {
            cluster.forward(index, message, topic, inbox, receipt);
        }
        void send(unsigned shard, ShardMessage message) override {
            cluster.in_transit_[{index, shard}].push_back(std::move(message));
        }
        void later(OwnTurn turn) override {
            cluster.in_transit_[{index, index}].push_back(std::move(turn));
        }
        void deliver_later() override {}  // see `end_turn`
        Interest& interest(unsigned shard) override { return cluster.nodes_[shard]->own_interest; }
        void record(PresenceChange change) override {
            cluster.recorded.push_back(std::move(change));
        }
        MemoryState memory() const override { return cluster.memory; }
        GatewayTotals& totals() override { return cluster.totals_; }
        bool stores() const override { return cluster.store != nullptr; }
        OwnerId next_owner() override { return cluster.owners.next(); }
        bool takes_no_new_owners() const override { return cluster.owners.are_nearly_used_up(); }
        bool is_store_full() const override { return cluster.is_store_full; }
        bool store_takes_nothing_new() const override { return cluster.store_takes_nothing_new; }
        bool store_refuses() const override { return cluster.store && cluster.store->refusing(); }
        void submit(std::vector<Operation> operations, bool urgent,
                    std::uint32_t generation) override {
            cluster.submit(index, std::move(operations), urgent, generation);
        }
        void read_messages(SessionId session, std::vector<Stamp> stamps) override {
            cluster.read_messages(index, session, std::move(stamps));
        }
        void call_store_overdue(Millis when) override { cluster.overdue_[index] = when; }
        std::uint32_t next_delayed_number() override { return cluster.next_delayed_++; }
        std::int64_t next_delayed() const override {
            return cluster.store ? cluster.store->next_delayed() : std::int64_t{1} << 40;
        }
        DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                      const DelayedSums::Fits& fits) override {
            return cluster.store ? cluster.store->claim_delayed(user, room, fits) : nullptr;
        }
        void take_delayed(std::int64_t before, std::size_t most) override {
            cluster.take_delayed(index, before, most);
        }

        BrokerCluster& cluster;
        const unsigned index;
        Interest own_interest;
        Counters counters;
        Broker broker;
    };

    void forward(unsigned from, const MessageRef& message, const Interest::Topic& topic,
                 std::optional<unsigned> inbox, PendingReceipt* receipt);
    void restore();
    void submit(unsigned from, std::vector<Operation> operations, bool urgent,
                std::uint32_t generation);
    void read_messages(unsigned from, SessionId session, std::vector<Stamp> stamps);
    void take_delayed(unsigned from, std::int64_t before, std::size_t most);

    const BrokerSettings settings_;
    GatewayTotals totals_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::map<Pair, std::deque<InTransit>> in_transit_;
    std::list<KeptLink*> links_;
    std::vector<Forwarded> forwarded_;
    Ledger::Start start_;
    std::uint32_t next_delayed_ = 1;
    std::map<unsigned, Millis> overdue_;  ///< by shard, when what is not acknowledged is stored
};

}  // namespace pulsegate
