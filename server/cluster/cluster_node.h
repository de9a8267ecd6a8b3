#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/cluster/cluster_calls.h"
#include "server/cluster/cluster_view.h"
#include "server/cluster/link/node_link.h"
#include "server/cluster/row_store.h"
#include "server/cluster/rules/judge.h"
#include "server/cluster/rules/pace.h"
#include "server/cluster/serving_lease.h"

namespace pulsegate {

/// This node among the others: it joins, sends heartbeats, and judges which nodes are dead. Calls
/// to Redis throw RedisError.
class ClusterNode {
public:
    using Deadline = ClusterCalls::Deadline;

    struct Place {
        std::string name{};
        std::string version{};
        Pace pace{};
    };

    explicit ClusterNode(Place place);

    /// Any thread may call it. Before the node has joined, the hello has an incarnation of this
    /// name that never joins.
    LinkHello hello() const;

    /// Begins a new incarnation. Throws std::runtime_error if another node with this name is alive,
    /// or if the data is not for this version.
    void join(RedisConnection& redis, Deadline deadline, NodeLink& link);

    const std::string& incarnation() const { return own_.incarnation; }
    const std::string& birth() const { return birth_; }
    /// True slightly before the heartbeat is due. Otherwise a caller with the same pace would miss
    /// every second one.
    bool is_beat_due() const { return monotonic_now() >= next_beat_ - place_.pace.beat / 4; }

    /// Call it when Redis has a different run than at the last heartbeat, so that its data may be
    /// old.
    void begin_run();
    /// Sends a heartbeat, and reads those of the others. With `is_new_run`, the result is fenced if
    /// this node was silent for too long before.
    RowStore::Result beat(RedisConnection& redis, Deadline deadline, bool is_new_run,
                          bool is_owner);
    void renew(ServingLease& lease) const;

    /// Condemns dead nodes, and makes the link ask nodes that may be dead. `before_condemning` is
    /// called before each condemnation. A node that may not claim throws there: an owner that is
    /// condemned exits, and then no node would serve.
    void judge(RedisConnection& redis, Deadline deadline, NodeLink& link,
               const std::function<void()>& before_condemning);
    /// Call it when Redis does not answer: makes the link ask all nodes.
    void ask_all(NodeLink& link) const;

    /// May this node claim all partitions now? `tokens` are their tokens at the last heartbeat.
    bool may_claim(const std::vector<Token>& tokens);

    /// `owner` owns the partitions according to their tokens. After a failover, two nodes may have
    /// rows that say that they are the owner.
    std::vector<ClusterView::Node> view(const std::string& owner) const;

private:
    std::vector<std::string> find_dead(RedisConnection& redis, Deadline deadline, NodeLink& link);
    bool is_gone(RedisConnection& redis, Deadline deadline, NodeLink& link, const Poll& seen,
                 const Beat& twin);
    void begin_life(Joined joined, Joining joining);
    std::set<std::string> addresses(Millis standstill) const;
    std::string link_of(const Beat& beat) const;
    void warn_of_useless_address();

    const Place place_;
    std::string address_;  ///< address of its link
    Beat own_;             ///< the last heartbeat that Redis got
    std::string birth_;
    std::optional<Judge> judge_;
    Poll poll_;  ///< the last poll
    Millis next_beat_ = 0;
    Millis sent_ = 0;  ///< when the last answered heartbeat was sent, by `boot_now`
    std::optional<Millis> claimable_since_;
    bool has_warned_ = false;  ///< about another node with a link address that is useless here
    std::atomic<Millis> answered_{0};  ///< by `boot_now`
    std::atomic<bool> may_condemn_soon_{false};
    mutable std::mutex mutex_;
    LinkHello hello_;  ///< guarded by the mutex
};

}  // namespace pulsegate
