#pragma once

#include <prometheus/metric_family.h>

#include <boost/json/object.hpp>
#include <vector>

#include "server/cluster/cluster_view.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/cluster`: the nodes, the owners of the partitions, and the state of Redis.
boost::asio::awaitable<ApiReply> show_cluster(const ApiContext& api, const ApiRequest& request);

/// The same, of a standby node.
boost::json::object cluster_json(const ClusterView& view);

/// The metrics of the cluster.
std::vector<prometheus::MetricFamily> cluster_metrics(const ClusterView& view);

}  // namespace pulsegate
