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

/// The way to Redis: one connection, which is made anew when it has broken.
class RedisAccess {
public:
    using Deadline = RedisConnection::Clock::time_point;

    RedisAccess(RedisTarget target, RedisTerms terms) : target_(std::move(target)), terms_(terms) {}

    /// A connection to a Redis that promises enough and has our functions. If several say that they
    /// are primaries, as after a failover, it is the one of the last connection, or else the first
    /// that has the data set `birth`. Throws std::runtime_error.
    void connect(Deadline deadline, const std::string& birth);
    void drop(const std::string& why);
    /// The connection stands, but Redis does not do what it should.
    void note_trouble(const std::string& why);

    bool is_connected() const { return connection_ != nullptr; }
    RedisConnection& connection() { return *connection_; }

    /// It has answered.
    void note_answer();
    /// What is known of it, for people; `look_closer` asks it. Throws RedisError.
    void look_closer(Deadline deadline);
    ClusterView::Redis view() const;
    std::uint64_t reconnects() const { return connects_ == 0 ? 0 : connects_ - 1; }

private:
    std::unique_ptr<RedisConnection> choose(Deadline deadline, const std::string& birth) const;

    const RedisTarget target_;
    const RedisTerms terms_;
    std::unique_ptr<RedisConnection> connection_;
    ClusterView::Redis known_;
    Deadline answered_{};
    std::uint64_t connects_ = 0;
};

}  // namespace pulsegate
