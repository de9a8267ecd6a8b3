#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /metrics`: all metrics in Prometheus' text format; those of the shards have the label
/// `shard`.
boost::asio::awaitable<ApiReply> show_metrics(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
