#include "server/shard/shard_admin.h"

#include <utility>

#include "server/base/clock.h"
#include "server/session/terms/eviction.h"
#include "server/shard/shard.h"

namespace pulsegate {

void ShardAdmin::send(Shard& shard, Task task) {
    shard.send(Shard::Task([task = std::move(task)](Shard& here) {
        ShardAdmin admin(here);
        task(admin);
    }));
}

BrokerAdmin& ShardAdmin::broker() { return shard_.broker().admin(); }
ClientLimits& ShardAdmin::client_limits() { return shard_.client_limits(); }
Revocations& ShardAdmin::revocations() { return shard_.revocations(); }
ShardStatus ShardAdmin::status() const { return shard_.status(); }

Evicted ShardAdmin::evict(const Eviction& eviction) {
    Evicted evicted = broker().evict(eviction, monotonic_now());
    shard_.end_turn();
    return evicted;
}

Evicted ShardAdmin::evict(const Address& address) { return shard_.evict(address); }
void ShardAdmin::tell_lift(const BanLift& lift) { shard_.tell_lift(lift); }

void ShardAdmin::tell_ban(const Address& address) { shard_.tell_home_ban(address); }

}  // namespace pulsegate
