#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/files/line_writer.h"
#include "server/base/owner_thread.h"
#include "server/limits/admission.h"
#include "server/message/message.h"
#include "server/routing/interest.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_messages.h"

namespace pulsegate {

class Shard;
class DataStore;

/// The other shards, and the event log, as the broker of one shard sees them. It owns none of them;
/// it only knows whether a shard lags behind. It lives on its shard's thread.
class ShardPeers final : public BrokerHost {
public:
    ShardPeers(unsigned index, const Admission& admission, GatewayTotals& totals,
               LineWriter* events, DataStore& store)
        : index_(index), admission_(admission), totals_(totals), events_(events), store_(store) {}

    /// All shards, including its own, by index; before they run.
    void meet(std::vector<Shard*> shards) { shards_ = std::move(shards); }

    const DataStore& store() const { return store_; }
    Shard& operator[](unsigned shard) { return *shards_[shard]; }

    /// True if too much waits for a shard that messages were sent to.
    bool congested();

    void forward(const MessageRef& message, const Interest::Topic& topic,
                 std::optional<unsigned> inbox, PendingReceipt* receipt) override;
    Interest& interest(unsigned shard) override;
    void send(unsigned shard, ShardMessage message) override;
    void later(OwnTurn turn) override;
    void deliver_later() override;
    void record(PresenceChange change) override;
    MemoryState memory() const override;
    GatewayTotals& totals() override { return totals_; }
    bool stores() const override;
    OwnerId next_owner() override;
    bool takes_no_new_owners() const override;
    bool is_store_full() const override;
    bool store_takes_nothing_new() const override;
    void submit(std::vector<Operation> operations, bool urgent, std::uint32_t generation) override;
    void read_messages(SessionId session, std::vector<Stamp> stamps) override;
    void call_store_overdue(Millis when) override;
    std::uint32_t next_delayed_number() override;
    bool store_refuses() const override;
    bool store_awaits_units() const override;
    std::int64_t next_delayed() const override;
    DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                  const DelayedSums::Fits& fits) override;
    void take_delayed(std::int64_t before, std::size_t most) override;

    DelayedTotal delayed_total(const std::optional<std::string>& user) const;

private:
    const unsigned index_;
    const Admission& admission_;
    GatewayTotals& totals_;
    LineWriter* const events_;  ///< null: none
    DataStore& store_;
    std::vector<Shard*> shards_;
    bool congested_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
