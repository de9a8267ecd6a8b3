#pragma once

#include <prometheus/metric_family.h>

#include <boost/json/object.hpp>
#include <vector>

#include "server/cluster/cluster_view.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/cluster`: nodes, who owns which partitions, and how Redis does.
boost::asio::awaitable<ApiReply> show_cluster(const ApiContext& api, const ApiRequest& request);

/// The same of a node that stands by.
boost::json::object cluster_json(const ClusterView& view);

/// What the metrics say of it.
std::vector<prometheus::MetricFamily> cluster_metrics(const ClusterView& view);

}  // namespace pulsegate
