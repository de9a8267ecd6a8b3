#include "server/http/standby_admin.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

#include "server/cluster/membership.h"
#include "server/http/guard.h"
#include "server/http/operation/cluster.h"
#include "server/http/serving/http_server.h"

namespace pulsegate {

using boost::beast::http::verb;

namespace {

std::string owner_in(const ClusterView& view) {
    const auto owner = std::ranges::find(view.nodes, true, &ClusterView::Node::is_owner);
    return owner == view.nodes.end() ? "no node" : "node " + owner->name;
}

ApiReply not_ready(const ClusterView& view, bool is_probe) {
    const std::string why = "this node stands by; " + owner_in(view) + " serves";
    auto reply = api_refusal(ApiError::standby, why);
    if (is_probe)
        reply.body =
            boost::json::serialize(boost::json::object{{"status", "standby"}, {"why", why}});
    return reply;
}

bool is_probe(const ApiRequest& request) {
    return request.path == "/healthz" || request.path == "/readyz";
}

}  // namespace

struct StandbyAdmin::Impl {
    Impl(const Membership& node, AdminTokens tokens)
        : cluster(node),
          guard(std::move(tokens)),
          server({.most_body_bytes = [](auto&) { return std::size_t{0}; },
                  .refusal = [this](auto& request) { return refusal(request); },
                  .is_probe = [](auto& request) { return is_probe(request); },
                  .answer = [this](auto& request) { return answer(request); }}) {}

    std::optional<ApiReply> refusal(const ApiRequest& request) const {
        if (is_probe(request)) return std::nullopt;
        return guard.refusal(request, AdminRole::read);
    }

    boost::asio::awaitable<ApiReply> answer(const ApiRequest& request) const {
        if (auto refused = refusal(request)) co_return *std::move(refused);
        const ClusterView view = cluster.view();
        if (request.path == "/healthz") co_return api_reply({{"status", "ok"}});
        if (request.path == "/api/v1/cluster" && request.method == verb::get)
            co_return api_reply(cluster_json(view));
        if (request.path == "/metrics")
            co_return ApiReply{
                .body = prometheus::TextSerializer().Serialize(cluster_metrics(view)),
                .content_type = "text/plain; version=0.0.4; charset=utf-8"};
        co_return not_ready(view, is_probe(request));
    }

    const Membership& cluster;
    const ApiGuard guard;
    HttpServer server;
};

StandbyAdmin::StandbyAdmin(const Membership& cluster, AdminTokens tokens)
    : impl_(std::make_unique<Impl>(cluster, std::move(tokens))) {}

StandbyAdmin::~StandbyAdmin() { impl_->server.stop(); }

void StandbyAdmin::listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls) {
    impl_->server.listen(endpoint, only_ipv6, has_tls);
}

void StandbyAdmin::use(std::function<SSL*()> new_tls_session) {
    impl_->server.use(std::move(new_tls_session));
}

void StandbyAdmin::start() { impl_->server.start(); }

}  // namespace pulsegate
