#include "server/http/routes.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "server/http/chat/chat.h"
#include "server/http/dashboard/dashboard.h"
#include "server/http/events/dead_letters.h"
#include "server/http/events/presence_feed.h"
#include "server/http/events/traces.h"
#include "server/http/messages/delayed.h"
#include "server/http/messages/publish.h"
#include "server/http/messages/retained.h"
#include "server/http/metrics/metrics.h"
#include "server/http/operation/backup.h"
#include "server/http/operation/cluster.h"
#include "server/http/operation/drain.h"
#include "server/http/operation/health.h"
#include "server/http/operation/openapi.h"
#include "server/http/operation/reload.h"
#include "server/http/operation/samples.h"
#include "server/http/operation/status.h"
#include "server/http/operation/upgrade.h"
#include "server/http/operation/wheel.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/path_pattern.h"
#include "server/http/users/bans.h"
#include "server/http/users/clients.h"
#include "server/http/users/erasure.h"
#include "server/http/users/history.h"
#include "server/http/users/inboxes.h"
#include "server/http/users/revocation.h"
#include "server/http/users/rooms.h"
#include "server/http/users/users.h"

namespace pulsegate {

using boost::beast::http::verb;

namespace {

/// The maximum body of a request with a list of messages.
constexpr std::size_t most_list_bytes = 4 * 1024 * 1024;

boost::asio::awaitable<ApiReply> show_index(const ApiContext& api, const ApiRequest& request);

constexpr Route::Method with_body(Route::Method method) {
    method.takes_body = true;
    return method;
}

constexpr Route routes[] = {
    {.path = "/healthz",
     .methods = {{verb::get, show_health, any_parameters}},
     .access = Route::Access::anybody,
     .is_probe = true,
     .is_of_node = true},
    {.path = "/readyz",
     .methods = {{verb::get, show_readiness, any_parameters}},
     .access = Route::Access::anybody,
     .is_probe = true,
     .is_of_node = true},
    {.path = "/metrics",
     .methods = {{verb::get, show_metrics, any_parameters}},
     .is_probe = true,
     .is_of_node = true},
    {.path = "/",
     .methods = {{verb::get, show_dashboard, any_parameters}},
     .access = Route::Access::anybody,
     .is_of_node = true},
    {.path = "/reference",
     .methods = {{verb::get, show_dashboard, any_parameters}},
     .access = Route::Access::anybody,
     .is_of_node = true},
    {.path = "/dashboard/{file}",
     .methods = {{verb::get, show_dashboard, any_parameters}},
     .access = Route::Access::anybody,
     .is_of_node = true},
    {.path = "/chat",
     .methods = {{verb::get, show_chat, any_parameters}},
     .access = Route::Access::anybody,
     .is_of_node = true},
    {.path = "/chat/{file}",
     .methods = {{verb::get, show_chat_file, any_parameters}},
     .access = Route::Access::anybody,
     .is_of_node = true},
    {.path = "/api/v1", .methods = {{verb::get, show_index}}},
    {.path = "/api/v1/openapi.json", .methods = {{verb::get, show_openapi}}},
    {.path = "/api/v1/cluster", .methods = {{verb::get, show_cluster}}, .is_of_node = true},
    {.path = "/api/v1/status", .methods = {{verb::get, show_status}}},
    {.path = "/api/v1/samples", .methods = {{verb::get, show_samples, "since"}}},
    {.path = "/api/v1/wheel", .methods = {{verb::get, show_wheel}}},
    {.path = "/api/v1/users", .methods = {{verb::get, show_users, "after limit state ids"}}},
    {.path = "/api/v1/users/{user}",
     .methods = {{verb::get, show_user}, {verb::delete_, erase_user}}},
    {.path = "/api/v1/users/{user}/inbox",
     .methods = {{verb::get, show_inbox, "after limit"}, {verb::delete_, empty_inbox}}},
    {.path = "/api/v1/users/{user}/history", .methods = {{verb::get, show_history, "since limit"}}},
    {.path = "/api/v1/users/{user}/revoke", .methods = {with_body({verb::post, revoke_logins})}},
    {.path = "/api/v1/users/{user}/rooms", .methods = {{verb::get, list_rooms_of_user}}},
    {.path = "/api/v1/users/{user}/watchers",
     .methods = {{verb::get, list_members, "after limit"},
                 with_body({verb::post, change_members}),
                 {verb::delete_, remove_all_members}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/users/{user}/watchers/{watcher}",
     .methods = {{verb::put, add_member}, {verb::delete_, remove_member}}},
    {.path = "/api/v1/rooms", .methods = {{verb::get, list_rooms, "after limit"}}},
    {.path = "/api/v1/rooms/{room}/members",
     .methods = {{verb::get, list_members, "after limit"},
                 with_body({verb::post, change_members}),
                 {verb::delete_, remove_all_members}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/rooms/{room}/members/{user}",
     .methods = {{verb::put, add_member}, {verb::delete_, remove_member}}},
    {.path = "/api/v1/bans",
     .methods = {{verb::get, list_bans, "user after limit"},
                 with_body({verb::put, set_ban, "user client address seconds reason"}),
                 {verb::delete_, lift_ban, "user client address"}}},
    {.path = "/api/v1/presence/changes",
     .methods = {{verb::get, show_presence_changes, "after limit wait"}}},
    {.path = "/api/v1/trace",
     .methods = {{verb::get, show_trace, "user client address seconds", AdminRole::operate}}},
    {.path = "/api/v1/webhooks/dead",
     .methods = {{verb::get, list_dead_letters, "after"},
                 {verb::delete_, drop_dead_letters, "id all"}}},
    {.path = "/api/v1/webhooks/dead/replay", .methods = {{verb::post, replay_dead_letters, "id"}}},
    {.path = "/api/v1/clients",
     .methods = {{verb::get, show_clients, "user client address listener state since after limit"},
                 {verb::delete_, evict_clients, "user client sessions"}}},
    {.path = "/api/v1/retained",
     .methods = {{verb::get, show_retained, "filter after limit"},
                 {verb::delete_, erase_retained, "filter user"}}},
    {.path = "/api/v1/drain",
     .methods = {{verb::get, show_drain}, with_body({verb::post, begin_drain})},
     .is_of_node = true},
    {.path = "/api/v1/upgrade",
     .methods = {{verb::get, show_upgrade}, with_body({verb::post, begin_upgrade})},
     .is_of_node = true},
    {.path = "/api/v1/reload", .methods = {{verb::post, reload}}, .is_of_node = true},
    {.path = "/api/v1/backup", .methods = {with_body({verb::post, back_up})}, .is_of_node = true},
    {.path = "/api/v1/publish",
     .methods = {with_body({verb::post, publish, "", AdminRole::publish})},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/delayed",
     .methods = {{verb::get, list_delayed, "user after limit"},
                 with_body({verb::post, add_delayed, "", AdminRole::publish}),
                 {verb::delete_, cancel_delayed, "user name", AdminRole::publish}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/delayed/{id}",
     .methods = {{verb::get, show_delayed},
                 {verb::delete_, cancel_delayed, "", AdminRole::publish}},
     .most_body_bytes = most_list_bytes},
};

/// The role that each method needs.
boost::json::object roles_json(const Route& route) {
    boost::json::object roles;
    for (const Route::Method& method : route.methods)
        if (method.answer)
            roles[boost::beast::http::to_string(method.verb)] = name_of(method.role_needed());
    return roles;
}

boost::asio::awaitable<ApiReply> show_index(const ApiContext&, const ApiRequest&) {
    boost::json::array resources;
    for (const Route& route : routes) {
        boost::json::object one{{"path", route.path}, {"methods", route.allowed()}};
        if (route.access == Route::Access::with_token) one["roles"] = roles_json(route);
        resources.push_back(std::move(one));
    }
    co_return api_reply({{"openapi", "/api/v1/openapi.json"}, {"resources", std::move(resources)}});
}

boost::asio::awaitable<ApiReply> show_nothing(const ApiContext&, const ApiRequest&) {
    co_return api_refusal(ApiError::unknown_resource, "no such resource: GET /api/v1 lists all");
}

constexpr Route nowhere{.path = {}, .methods = {{verb::get, show_nothing, any_parameters}}};

}  // namespace

const Route::Method* Route::method(verb asked) const {
    for (const Method& method : methods)
        if (method.answer && method.verb == (asked == verb::head ? verb::get : asked))
            return &method;
    return nullptr;
}

/// If a body were ignored, a request could affect more than its sender meant, as with parameters.
/// Many HTTP clients send {} with each POST; it is allowed because it is empty.
ApiRequest Route::Method::parsed(const ApiRequest& request) const {
    ApiRequest parsed = request;
    if (parameters == any_parameters) return parsed;
    parsed.query = Query(request.encoded_query, parameters);
    if (!takes_body && !request.body.empty() && request.body != "{}")
        throw BadRequest(ApiError::unexpected_body,
                         "this request takes no body: use the path and parameters");
    return parsed;
}

std::string Route::allowed() const {
    std::string all;
    for (const Method& method : methods) {
        if (!method.answer) continue;
        if (!all.empty()) all += ", ";
        all += boost::beast::http::to_string(method.verb);
        if (method.verb == verb::get) all += ", HEAD";
    }
    return all;
}

std::span<const Route> all_routes() { return routes; }

const Route& find_route(std::string_view path) {
    for (const Route& route : routes)
        if (path_matches(route.path, path)) return route;
    return nowhere;
}

}  // namespace pulsegate
