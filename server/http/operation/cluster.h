#pragma once

#include <prometheus/metric_family.h>

#include <boost/json/object.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/cluster/cluster_view.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/cluster`: the nodes, the owners of the partitions, and the state of Redis.
boost::asio::awaitable<ApiReply> show_cluster(const ApiContext& api, const ApiRequest& request);

/// What the node that answers knows about the clients of a node. It shows nothing else.
struct NodeClients {
    std::optional<bool> is_edge{};
    std::optional<bool> is_linked{};  ///< to the owner, as its edge
    std::optional<bool> drains{};
    std::optional<std::size_t> clients{};  ///< connected to this node
};
/// By the node's name: an edge that joins again keeps its link, but has a new incarnation.
using ClientsByNode = std::map<std::string, NodeClients>;

/// The same, of a standby node.
boost::json::object cluster_json(const ClusterView& view, const ClientsByNode& clients);

/// The metrics of the cluster.
std::vector<prometheus::MetricFamily> cluster_metrics(const ClusterView& view);

}  // namespace pulsegate
