#include "server/http/metrics/metrics.h"

#include "server/cluster/membership.h"
#include "server/http/metrics/metric_groups.h"
#include "server/http/operation/cluster.h"
#include "server/http/questions/shard_questions.h"

namespace pulsegate {

boost::asio::awaitable<ApiReply> show_metrics(const ApiContext& api, const ApiRequest&) {
    const auto shards = co_await api.shards.status();
    if (!shards) co_return shard_unavailable();
    Families families(*shards);
    add_client_metrics(families);
    add_message_metrics(families);
    add_store_metrics(families);
    add_process_metrics(families, api);
    add_backend_metrics(families, api);
    if (api.cluster) families.append(cluster_metrics(api.cluster->view()));
    co_return ApiReply{.body = families.text(),
                       .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace pulsegate
