#include "tests/support/broker_cluster.h"

#include <algorithm>

#include "server/shard/data_store.h"
#include "server/shard/restoration.h"

namespace pulsegate {

namespace {

template <class Visit>
void for_each_queue(const Broker& broker, Visit visit) {
    broker.admin().sessions().for_each([&](const Session& session) {
        const std::size_t queued = session.state.exchanges().outbox().queued();
        if (queued > 0) visit(queued);
    });
    broker.admin().presence().visit_entries({}, SIZE_MAX, [&](const PresenceEntry& user) {
        if (!user.is_packed) return Visited::done;
        const auto messages = static_cast<const PackedRecord&>(user).messages();
        if (!messages.empty()) visit(messages.size());
        return Visited::done;
    });
}

}  // namespace

BrokerCluster::BrokerCluster(const BrokerSettings& settings, unsigned shards, Ledger* store,
                             Millis now)
    : now(now), store(store), settings_(settings) {
    for (unsigned shard = 0; shard < shards; ++shard)
        nodes_.push_back(std::make_unique<Node>(*this, settings_, shard, shards));
    if (store) restore();
    for (auto& node : nodes_) static_cast<void>(node->broker.tick(now));
}

void BrokerCluster::restore() {
    std::vector<Restore*> shards;
    for (auto& node : nodes_) shards.push_back(&node->broker.restore());
    auto restored = pulsegate::restore(*store, shards, [this] { return now; });
    store_restored(*store, restored);
    start_ = restored.start;
    owners.use(start_.owners);
    next_delayed_ = start_.next_delayed;
}

std::size_t BrokerCluster::longest_queue(unsigned shard) const {
    std::size_t longest = 0;
    for_each_queue(nodes_[shard]->broker,
                   [&](std::size_t size) { longest = std::max(longest, size); });
    return longest;
}

std::size_t BrokerCluster::queues(unsigned shard) const {
    std::size_t queues = 0;
    for_each_queue(nodes_[shard]->broker, [&](std::size_t) { ++queues; });
    return queues;
}

std::uint64_t BrokerCluster::sum(std::uint64_t Counters::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->counters.*counter;
    return sum;
}

void BrokerCluster::end_turn() {
    for (bool quiet = false; !quiet;) {
        quiet = true;
        for (const auto& node : nodes_)
            while (!in_slices && node->broker.unfinished()) node->broker.go_on(now);
        for (auto next = links_.begin(); next != links_.end();) {
            KeptLink& link = **next;
            Broker& home = broker(link.shard);
            if (link.ending) {
                if (link.session) home.end(*link.session, *link.ending, now);
                next = links_.erase(next);
                quiet = false;
                continue;
            }
            if (!link.stuck && link.session && std::exchange(link.notify_drained, false)) {
                home.drained(*link.session, now);
                quiet = false;
            }
            ++next;
        }
    }
    if (settings_.packed_after != 0) return;
    for (const auto& node : nodes_) node->broker.pack_all(now);
}

void BrokerCluster::stop(Broker::UsersAtStop users) {
    for (const auto& node : nodes_) node->broker.begin_stop(users, now);
    const auto cause = users == Broker::UsersAtStop::are_awaited ? Cause::drained : Cause::shutdown;
    for (KeptLink* const link : links_)
        link->end({cause, Reason::server_shutting_down, "the server is shutting down"});
    end_turn();
    for (const auto& node : nodes_) node->broker.flush_store();
}

void BrokerCluster::forward(unsigned from, const MessageRef& message, const Interest::Topic& topic,
                            std::optional<unsigned> inbox, PendingReceipt* receipt) {
    Forwarded forwarded{message, {}};
    const bool for_all = message->retained;
    for (const auto& node : nodes_) {
        if (node->index == from) continue;
        const bool is_asked =
            for_all || node->index == inbox || node->own_interest.may_match(topic);
        if (!is_asked) {
            forwarded.spared.push_back(node->index);
            continue;
        }
        const ReceiptId part = receipt ? receipt->add_part() : 0;
        InTransit item = message;
        if (part != 0)
            item =
                ShardMessage(TrackedMessage{message, from, part, receipt->collected() != nullptr});
        in_transit_[{from, node->index}].push_back(std::move(item));
    }
    forwarded_.push_back(std::move(forwarded));
}

/// A unit is on its way to the disk, until the test delivers its UnitDone.
void BrokerCluster::submit(unsigned from, std::vector<Operation> operations, bool urgent,
                           std::uint32_t generation) {
    Unit unit{std::move(operations),
              [this, from](Outcome outcome, auto& given_back) {
                  in_transit_[{from, from}].push_back(LedgerAnswer(unit_done(outcome, given_back)));
              },
              from + 1, generation};
    if (urgent)
        store->submit(std::move(unit));
    else
        store->submit_lazily(std::move(unit));
}

void BrokerCluster::take_delayed(unsigned from, std::int64_t before, std::size_t most) {
    store->take_delayed(before, most, [this, from](Outcome, std::vector<PutDelayed> taken) {
        in_transit_[{from, from}].push_back(LedgerAnswer(DelayedDue{std::move(taken)}));
    });
}

void BrokerCluster::store_overdue() {
    for (const auto& [shard, when] : std::exchange(overdue_, {}))
        if (when <= now)
            broker(shard).store_overdue(now);
        else
            overdue_.emplace(shard, when);
}

void BrokerCluster::read_messages(unsigned from, SessionId session, std::vector<Stamp> stamps) {
    ++reads;
    store->read_messages(stamps, [=, this](Outcome outcome, const auto& stored) {
        in_transit_[{from, from}].push_back(
            LedgerAnswer(messages_read(session, outcome, stamps, stored, now)));
    });
}

std::vector<BrokerCluster::Pair> BrokerCluster::pairs_with_messages() const {
    std::vector<Pair> pairs;
    for (const auto& [pair, queue] : in_transit_)
        if (!queue.empty()) pairs.push_back(pair);
    return pairs;
}

MessageRef BrokerCluster::deliver(Pair pair) {
    auto& queue = in_transit_[pair];
    InTransit item = std::move(queue.front());
    queue.pop_front();
    Broker& reader = broker(pair.second);
    std::visit([&](auto& content) { reader.receive(content, now); }, item);
    const auto* message = std::get_if<MessageRef>(&item);
    return message ? *message : nullptr;
}

}  // namespace pulsegate
