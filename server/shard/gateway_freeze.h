#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

class Shard;

/// Brings all shards to rest, so that another process can take their clients. At rest, no client is
/// read, all work has ended and is stored, and nothing changes any more. Any thread may begin it.
/// It lives until it has reported the result.
class GatewayFreeze : public std::enable_shared_from_this<GatewayFreeze> {
public:
    struct Terms {
        Millis for_logins = 500;  ///< how long it waits for logins under way
        Millis for_all = 5'000;   ///< how long it tries; then all shards go on
    };
    /// Called on a shard's thread with the result.
    using Done = std::function<void(bool at_rest)>;

    static void begin(std::vector<Shard*> shards, const Terms& terms, Done done);

    /// Makes all shards go on; calls `done` when they do.
    static void end(const std::vector<Shard*>& shards, const std::function<void()>& done);

private:
    GatewayFreeze(std::vector<Shard*> shards, const Terms& terms, Done done);

    void look();
    void look(Shard& shard, std::size_t place);
    void decide(Shard& last);
    static void on_each(const std::vector<Shard*>& shards, const std::function<void(Shard&)>& task,
                        const std::function<void()>& done);

    const std::vector<Shard*> shards_;
    const Done done_;
    const Millis logins_until_;
    const Millis until_;

    // For the present look at all shards. Each shard uses only its own element of `handled_`.
    std::atomic<std::size_t> left_{0};
    std::atomic<std::size_t> logins_{0};
    std::atomic<bool> is_quiet_{true};
    std::atomic<bool> has_changed_{false};
    std::vector<std::uint64_t> handled_;
    bool was_quiet_ = false;  ///< at the previous look
    bool holds_logins_ = false;
};

}  // namespace pulsegate
