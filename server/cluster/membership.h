#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/cluster/cluster_view.h"
#include "server/cluster/link/link_settings.h"
#include "server/cluster/row_store.h"
#include "server/redis/redis_target.h"
#include "server/redis/redis_terms.h"

namespace pulsegate {

/// This node's part in a cluster that has its data in one Redis: it beats, judges the others,
/// claims all partitions or stands by, and writes the rows of what it owns. Redis compares the
/// token of each write. README.md says why no other node's rows can be harmed. One thread uses it,
/// unless a comment says otherwise.
class Membership : public RowStore {
public:
    struct Options {
        RedisTarget redis{};
        std::string node_name{};
        LinkSettings link{};
        std::string version{};  ///< of the program, for people
        std::chrono::milliseconds lease{8000};
        std::chrono::milliseconds beat{1000};
        RedisDurability durability = RedisDurability::always;
        unsigned replicas = 0;  ///< that must have a unit before it counts as written
        /// Does this process do its work? While it does not, the node does not beat.
        std::function<bool()> is_well{};
    };

    /// Listens on the link, connects, checks what Redis promises, loads the functions, and joins.
    /// Throws std::runtime_error with the cure.
    explicit Membership(Options options);
    ~Membership() override;
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

    /// Stands by until this node owns all partitions: true. False when `give_up`, which is asked
    /// some times a second, says so.
    bool await_ownership(const std::function<bool()>& give_up);

    /// Some rows perhaps twice.
    void read_rows(const Visit& visit) override;

    /// One call of Redis (a quarter of a million rows at most; more go in several). Waits for a
    /// second at most when Redis is away. After `away` Redis may have the changes all the same; who
    /// does not hand them in again must write the rows of these keys as they are.
    Result write(const std::vector<RowChange>& changes, bool may_overfill) override;

    Result rewrite(const std::vector<RowChange>& rows) override;

    /// Beats, and judges.
    Result look() override;

    void leave() override;

    /// Is it sure that no other node serves these partitions? Any thread, and cheap.
    bool may_serve() const;

    /// Any thread.
    ClusterView view() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
