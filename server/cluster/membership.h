#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/cluster/cluster_view.h"
#include "server/cluster/link/carried_request.h"
#include "server/cluster/link/home_dial.h"
#include "server/cluster/link/link_settings.h"
#include "server/cluster/row_store.h"
#include "server/redis/redis_target.h"
#include "server/redis/redis_terms.h"

namespace pulsegate {

/// This node's part in a cluster with its data in one Redis: it sends heartbeats, judges the other
/// nodes, claims all partitions or stands by, and writes the rows of its partitions. Redis compares
/// the token of each write. README.md says why no node can damage another node's rows. One thread
/// uses it, unless a comment says otherwise.
class Membership : public RowStore {
public:
    struct Options {
        RedisTarget redis{};
        std::string node_name{};
        LinkSettings link{};
        std::string version{};  ///< version of the program, for people
        std::chrono::milliseconds lease{8000};
        std::chrono::milliseconds beat{1000};
        RedisDurability durability = RedisDurability::always;
        unsigned replicas = 0;  ///< replicas that must have a unit before it counts as written
        /// Does this process work? While it does not, the node sends no heartbeat.
        std::function<bool()> is_well{};
    };

    /// Listens on the link, connects, checks the durability of Redis, loads the functions, and
    /// joins. Throws std::runtime_error with the remedy; RedisLoadingError if Redis can be used
    /// when it has read its data.
    explicit Membership(Options options);
    ~Membership() override;
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

    /// Stands by until this node owns all partitions, then returns true. Returns false if `give_up`
    /// returns true; it is called several times a second.
    bool await_ownership(const std::function<bool()>& give_up);

    /// It may visit some rows twice.
    void read_rows(const Visit& visit) override;

    /// Makes one call of Redis for up to a quarter of a million rows, and several calls for more.
    /// Waits at most a second if Redis is away, and then 1.4 s for the replicas. After `away`,
    /// Redis may have the changes nevertheless. A caller that does not repeat them must write the
    /// present rows of these keys.
    Result write(const std::vector<RowChange>& changes, bool may_overfill) override;

    Result rewrite(const std::vector<RowChange>& rows) override;

    /// Sends a heartbeat, and judges.
    Result look() override;

    void leave() override;

    /// Is it sure that no other node serves these partitions? It is cheap, and any thread may call
    /// it.
    bool may_serve() const;

    /// Any thread may call it.
    ClusterView view() const;

    /// From now on the other nodes hear that this node has this many shards. The handlers get the
    /// connections of edges, and the requests to the HTTP API that other nodes carry here, on the
    /// link's thread. Any thread may call it.
    void accept_edges(unsigned shards, std::function<void(std::shared_ptr<FrameStream>)> handler,
                      std::function<void(UniqueFd, CarriedRequest)> request_handler);
    /// After it returns, no call of a handler is running. So a handler must not call it. Any other
    /// thread may.
    void refuse_edges();

    /// Connects to a home as its edge; this node has `shards` shards. `done` is called on the
    /// link's thread, unless this object is destroyed first. Any thread may call it.
    void dial(HomeNode home, unsigned shards, std::function<void(DialedHome)> done);

    /// Carries an HTTP request from this socket to a home; see NodeLink. Any thread may call it.
    void carry(HomeNode home, CarriedRequest request, UniqueFd socket);

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
