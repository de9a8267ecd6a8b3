#pragma once

#include <functional>

namespace pulsegate {

class Address;
class BrokerAdmin;
class ClientLimits;
class Revocations;
class Shard;
struct BanLift;
struct Evicted;
struct Eviction;
struct ShardStatus;

/// A shard as the HTTP API sees it, on the shard's thread. This header leaves out packets, logins
/// and connections, so files that include it compile faster.
class ShardAdmin {
public:
    using Task = std::function<void(ShardAdmin&)>;
    /// Runs the task on the shard, in a round of its own. From any thread.
    static void send(Shard& shard, Task task);

    explicit ShardAdmin(Shard& shard) : shard_(shard) {}

    BrokerAdmin& broker();
    ClientLimits& client_limits();
    Revocations& revocations();
    ShardStatus status() const;
    /// See BrokerAdmin. The clients' connections have ended when it returns.
    Evicted evict(const Eviction& eviction);
    /// Disconnects some clients at the address, and drops their wills.
    Evicted evict(const Address& address);
    /// Tells the edges of this node of a lifted ban. Only on the first shard.
    void tell_lift(const BanLift& lift);
    /// Tells them of a ban of this node. Only on the first shard.
    void tell_ban(const Address& address);

private:
    Shard& shard_;
};

}  // namespace pulsegate
