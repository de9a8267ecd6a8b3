#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/cluster/row_store.h"
#include "server/cluster/rules/judge.h"
#include "server/cluster/rules/token.h"
#include "server/redis/redis_connection.h"

namespace pulsegate {

// The functions of pg1.lua, except the functions that change rows. All throw RedisError.

/// A node's row in `{pg}:nodes`.
struct NodeRow {
    bool is_owner = false;
    std::string link_address{};
    std::string version{};
};

struct Poll {
    RowStore::Result result{};
    std::vector<Beat> beats{};
    std::map<std::string, NodeRow> nodes{};  ///< by incarnation

    const NodeRow& node(const std::string& incarnation) const;
};

/// The data that a joining node needs and states.
struct Joining {
    std::string birth{};  ///< the birth to use if there is no data set yet
    std::string incarnation{};
    NodeRow row{};
    std::vector<std::string> dead{};  ///< dead incarnations of the same name
};
struct Joined {
    std::string trouble{};  ///< why the node has not joined; "": it has
    std::string twin{};     ///< a living incarnation with the same name
    std::string birth{}, partitions{}, format{};
};

class ClusterCalls {
public:
    using Deadline = RedisConnection::Clock::time_point;

    static constexpr std::string_view format = "1";  ///< format of rows

    ClusterCalls(RedisConnection& redis, Deadline deadline) : redis_(redis), deadline_(deadline) {}

    /// Reads all nodes, without a heartbeat.
    Poll poll();
    Poll beat(const std::string& birth, const Beat& own, const NodeRow& row, bool may_be_missing);
    Joined join(const Joining& joining);
    /// Returns false if the victim is alive.
    bool condemn(const std::string& judge, const Beat& victim);
    std::vector<Token> tokens();
    /// `epochs[p]` are the new epochs.
    RowStore::Result claim(const std::string& owner, const std::vector<Token>& seen,
                           const std::vector<std::uint64_t>& epochs);
    RowStore::Result leave(const std::string& incarnation,
                           const std::vector<std::uint64_t>& epochs);
    std::string birth();
    /// The keys of all hashes of rows.
    std::vector<std::string> row_hashes();

    RedisReply call(const std::vector<std::string_view>& words);

private:
    RedisConnection& redis_;
    const Deadline deadline_;
};

/// The result of Redis for a function that makes changes.
RowStore::Result result_of(const RedisReply& reply);

}  // namespace pulsegate
