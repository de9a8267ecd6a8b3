#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/cluster/cluster_view.h"
#include "server/redis/redis_connection.h"
#include "server/redis/redis_target.h"
#include "server/redis/redis_terms.h"

namespace pulsegate {

/// The access to Redis: one connection, which is replaced when it is broken.
class RedisAccess {
public:
    using Deadline = RedisConnection::Clock::time_point;

    RedisAccess(RedisTarget target, RedisTerms terms) : target_(std::move(target)), terms_(terms) {}

    /// Connects, the first time only to a Redis that meets the terms, and loads the functions. If
    /// several servers say that they are the primary, as after a failover, it chooses the one of
    /// the last connection, or else the first one with the data set `birth`. Throws
    /// std::runtime_error.
    void connect(Deadline deadline, const std::string& birth);
    /// Throws RedisTermsError if this Redis does not meet the terms, and RedisError if it does not
    /// answer. Once they are met, it is not asked again on this connection.
    void require_terms(Deadline deadline);
    /// The same, but asks in any case.
    void require_terms_now(Deadline deadline) {
        has_terms_ = false;
        require_terms(deadline);
    }
    /// Have they been met on this connection? It asks nobody.
    bool has_terms() const { return has_terms_; }
    void drop(const std::string& why);
    /// Call it when the connection works, but Redis does not behave as required.
    void note_trouble(const std::string& why);

    bool is_connected() const { return connection_ != nullptr; }
    RedisConnection& connection() { return *connection_; }

    /// Call it when Redis has answered.
    void note_answer();
    /// Asks Redis for facts that `view` shows. Throws RedisError, also if Redis has begun a new run
    /// on this connection.
    void look_closer(Deadline deadline);
    ClusterView::Redis view() const;
    std::uint64_t reconnects() const { return connects_ == 0 ? 0 : connects_ - 1; }

private:
    std::unique_ptr<RedisConnection> choose(Deadline deadline, const std::string& birth) const;

    const RedisTarget target_;
    const RedisTerms terms_;
    std::unique_ptr<RedisConnection> connection_;
    bool has_terms_ = false;  ///< the connection's Redis met them
    ClusterView::Redis known_;
    std::string run_;  ///< run of Redis on the last connection
    Deadline answered_{};
    std::uint64_t connects_ = 0;
};

}  // namespace pulsegate
