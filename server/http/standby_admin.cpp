#include "server/http/standby_admin.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/backend/await_result.h"
#include "server/cluster/membership.h"
#include "server/cluster/rules/incarnation.h"
#include "server/http/admin.h"
#include "server/http/audit.h"
#include "server/http/forwarding.h"
#include "server/http/guard.h"
#include "server/http/metrics/families.h"
#include "server/http/operation/cluster.h"
#include "server/http/operation/drain.h"
#include "server/http/operation/reload.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/routes.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/http_server.h"
#include "server/http/serving/web_files.h"
#include "server/limits/address_limits.h"

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

/// The file of a page for operators; null if there is no such file.
const WebFile* file_of_page(const ApiRequest& request) {
    if (request.method != verb::get && request.method != verb::head) return nullptr;
    const bool is_of_page = request.path == "/" || request.path == "/reference" ||
                            request.path.starts_with("/dashboard/");
    return is_of_page ? find_web_file(request.path) : nullptr;
}

/// True if the node that owns the data must answer.
bool is_for_home(const ApiRequest& request) {
    return request.path.starts_with("/api/v1") && !find_route(request.path).is_of_node;
}

AdminRole role_needed(const ApiRequest& request) {
    if (const auto* const method = find_route(request.path).method(request.method))
        return method->role_needed();
    return is_change(request) ? AdminRole::operate : AdminRole::read;
}

/// Nothing if the method accepts the request.
std::optional<ApiReply> mistake(const Route::Method& method, const ApiRequest& request) {
    try {
        method.parsed(request);
        return std::nullopt;
    } catch (const BadRequest& wrong) {
        return api_refusal(wrong.error, wrong.sentence);
    }
}

NodeClients clients_of_node(const StandbyState& state) {
    const bool drains = state.drain && state.drain->phase() != DrainState::Phase::none;
    if (!state.is_edge) return {.is_edge = false, .drains = drains};
    return {.is_edge = true,
            .is_linked = state.has_link,
            .drains = drains,
            .clients = state.connections};
}

ApiReply cluster_of_node(const ClusterView& view, const StandbyState& state) {
    return api_reply(
        cluster_json(view, {{std::string(node_name_of(view.self)), clients_of_node(state)}}));
}

ApiReply metrics_of_node(const ClusterView& view, const StandbyState& state) {
    const std::vector<ShardStatus> none;
    Families families(none);
    families.append(cluster_metrics(view));
    if (state.is_edge) {
        families.gateway_gauge("pulsegate_edge_linked", "1 if this edge has a link to the owner.",
                               state.is_linked);
        families.gateway_gauge("pulsegate_edge_connections", "Open connections of this edge.",
                               static_cast<double>(state.connections));
    }
    return {.body = families.text(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace

struct StandbyAdmin::Impl {
    Impl(Membership& node, std::function<StandbyState()> at_present, AdminTokens tokens,
         AdminHost process)
        : cluster(node),
          state(std::move(at_present)),
          host(std::move(process)),
          guard(std::move(tokens)),
          server({.most_body_bytes = [this](auto& request) { return most_body_bytes(request); },
                  .refusal = [this](auto& request) { return refusal(request); },
                  .is_probe = [](auto& request) { return is_probe(request); },
                  .answer = [this](auto& request) { return answer(request); }}),
          forwarding(node, server.io()) {}

    std::size_t most_body_bytes(const ApiRequest& request) const {
        const Route usual{};
        return judge(request) ? usual.most_body_bytes : find_route(request.path).most_body_bytes;
    }

    std::optional<ApiReply> judge(const ApiRequest& request) const {
        if (is_probe(request) || file_of_page(request)) return std::nullopt;
        return guard.refusal(request, role_needed(request));
    }

    std::optional<ApiReply> refusal(const ApiRequest& request) const {
        auto refused = judge(request);
        if (refused && is_change(request)) audit_refused(with_token(request), refused->status);
        return refused;
    }

    /// The request with the name of its token, for the audit log.
    ApiRequest with_token(ApiRequest request) const {
        request.token = guard.name_shown(request);
        return request;
    }

    boost::asio::awaitable<ApiReply> answer(const ApiRequest& request) {
        if (auto refused = refusal(request)) co_return *std::move(refused);
        if (is_for_home(request)) {
            std::string token(guard.name_shown(request));
            const auto banned = ban_of_edge(request);
            ApiReply reply = co_await forwarding.answer(request, std::move(token));
            if (!is_change(request))  // as in Api::answer
                if (auto refused = judge(request)) co_return *std::move(refused);
            const bool is_known = reply.status == boost::beast::http::status::ok;
            const bool is_unknown = reply.status == boost::beast::http::status::not_found;
            if ((!is_known && !is_unknown) || !banned)
                co_return guard.guarded(std::move(reply), request, role_needed(request));
            // The home's lift may have come before its answer, or this node may be an edge no more.
            if (AddressLimits* const addresses = state().addresses)
                static_cast<void>(addresses->lift_ban(*banned, monotonic_now()));
            if (is_unknown) reply = api_reply({{"lifted", 1}});
            audit(with_token(request), reply.status);
            co_return reply;
        }
        const Route::Method* const method = find_route(request.path).method(request.method);
        const bool reloads = request.path == "/api/v1/reload";
        if (!method || (!reloads && request.path != "/api/v1/drain"))
            co_return co_await shown(request);
        if (auto wrong = mistake(*method, request)) co_return *std::move(wrong);
        if (reloads) co_return co_await reload(request);
        co_return drain(request);
    }

    /// An edge bans addresses that guess passwords. The home lifts these bans, too, but it may have
    /// no link to this node, or not know the ban. Returns the address that the request is to lift
    /// the ban of, if it is banned here.
    std::optional<Address> ban_of_edge(const ApiRequest& request) const {
        const AddressLimits* const addresses = state().addresses;
        if (!addresses || request.method != verb::delete_ || request.path != "/api/v1/bans")
            return std::nullopt;
        const Route::Method& method = *find_route(request.path).method(request.method);
        if (mistake(method, request)) return std::nullopt;
        const auto named = method.parsed(request).query.text("address");
        const auto address = named ? Address::parse(*named) : std::nullopt;
        if (!address || !addresses->banned(*address, monotonic_now())) return std::nullopt;
        return address;
    }

    boost::asio::awaitable<ApiReply> reload(const ApiRequest& request) {
        const std::string token(guard.name_shown(request));  // the tokens may change meanwhile
        ApiRequest audited = request;
        audited.token = token;
        ApiReply reply = co_await reload_by(server.io(), host.reload);
        audit(audited, reply.status);
        co_return reply;
    }

    ApiReply drain(const ApiRequest& request) const {
        static const DrainState without_clients;
        const StandbyState now = state();
        const DrainState& drain = now.drain ? *now.drain : without_clients;
        if (request.method != verb::post) return drain_reply(drain, now.connections);
        ApiReply reply = begin_drain_by(drain, host, request);
        audit(with_token(request), reply.status);
        return reply;
    }

    boost::asio::awaitable<ApiReply> shown(const ApiRequest& request) {
        const StandbyState now = state();
        const WebFile* const file = file_of_page(request);
        const bool is_start = request.path == "/" && !now.is_linked;
        if (file) co_return web_file_reply(is_start ? *find_web_file("/standby") : *file);
        if (request.path == "/healthz" && now.api) co_return co_await ask(*now.api, "/healthz");
        if (request.path == "/healthz") co_return api_reply({{"status", "ok"}});
        if (request.path == "/readyz" && now.is_linked) co_return api_reply({{"status", "ready"}});
        const ClusterView view = cluster.view();
        if (request.path == "/api/v1/cluster" && request.method == verb::get)
            co_return cluster_of_node(view, now);
        if (request.path == "/metrics") co_return co_await metrics(view, now);
        co_return not_ready(view, is_probe(request));
    }

    boost::asio::awaitable<ApiReply> metrics(const ClusterView& view, const StandbyState& now) {
        ApiReply reply = metrics_of_node(view, now);
        if (!now.api) co_return reply;
        const ApiReply of_loops = co_await ask(*now.api, "/metrics");
        // If the event loops don't answer, the metrics of the node alone are shown.
        if (of_loops.status == boost::beast::http::status::ok) reply.body.insert(0, of_loops.body);
        co_return reply;
    }

    /// The answer of the API of this edge's event loops.
    boost::asio::awaitable<ApiReply> ask(Admin& api, const char* path) {
        constexpr std::chrono::seconds patience(5);
        const auto asked = [&](const auto& done) {
            api.ask(path,
                    [done](ApiReply reply) { done(std::make_shared<ApiReply>(std::move(reply))); });
        };
        const auto reply = co_await await_result<std::shared_ptr<ApiReply>>(
            server.io(), asked, std::chrono::steady_clock::now() + patience);
        co_return reply ? std::move(*reply) : shard_unavailable();
    }

    const Membership& cluster;
    const std::function<StandbyState()> state;
    const AdminHost host;
    ApiGuard guard;
    HttpServer server;
    const Forwarding forwarding;
};

StandbyAdmin::StandbyAdmin(Membership& cluster, std::function<StandbyState()> state,
                           AdminTokens tokens, AdminHost host)
    : impl_(std::make_unique<Impl>(cluster, std::move(state), std::move(tokens), std::move(host))) {
}

StandbyAdmin::~StandbyAdmin() { stop(); }

void StandbyAdmin::listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls) {
    impl_->server.listen(endpoint, only_ipv6, has_tls);
}

void StandbyAdmin::listen_locally(const std::string& path) { impl_->server.listen_locally(path); }

void StandbyAdmin::use(std::function<SSL*()> new_tls_session) {
    impl_->server.use(std::move(new_tls_session));
}

void StandbyAdmin::use(AdminTokens tokens) {
    boost::asio::post(impl_->server.io(), [this, tokens = std::move(tokens)]() mutable {
        impl_->guard = ApiGuard(std::move(tokens));
    });
}

void StandbyAdmin::start() { impl_->server.start(); }

void StandbyAdmin::stop() { impl_->server.stop(); }

}  // namespace pulsegate
