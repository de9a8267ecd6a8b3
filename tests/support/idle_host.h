#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/session/durable/broker_host.h"

namespace pulsegate {

/// A shard with a store, in which nothing happens.
class IdleHost : public BrokerHost {
public:
    void forward(const MessageRef&, const Interest::Topic&, std::optional<unsigned>,
                 PendingReceipt*) override {}
    Interest& interest(unsigned) override { return interest_; }
    void send(unsigned, ShardMessage) override {}
    void later(OwnTurn) override {}
    void deliver_later() override {}
    void record(PresenceChange) override {}
    MemoryState memory() const override { return MemoryState::plenty; }
    GatewayTotals& totals() override { return totals_; }
    bool stores() const override { return true; }
    OwnerId next_owner() override { return 1; }
    bool is_store_full() const override { return false; }
    bool store_refuses() const override { return false; }
    void submit(std::vector<Operation>, bool, std::uint32_t) override {}
    void read_messages(SessionId, std::vector<Stamp>) override {}
    void call_store_overdue(Millis) override {}
    std::uint32_t next_delayed_number() override { return 1; }
    std::int64_t next_delayed() const override { return 0; }
    DelayedClaimRef claim_delayed(const std::string&, const DelayedTotal&,
                                  const DelayedSums::Fits&) override {
        return nullptr;
    }
    void take_delayed(std::int64_t, std::size_t) override {}

private:
    Interest interest_;
    GatewayTotals totals_;
};

}  // namespace pulsegate
