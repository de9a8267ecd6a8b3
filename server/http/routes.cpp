#include "server/http/routes.h"

#include <boost/json/array.hpp>
#include <utility>

#include "server/http/chat/chat.h"
#include "server/http/events/dead_letters.h"
#include "server/http/events/presence_feed.h"
#include "server/http/messages/delayed.h"
#include "server/http/messages/publish.h"
#include "server/http/messages/retained.h"
#include "server/http/operation/backup.h"
#include "server/http/operation/health.h"
#include "server/http/operation/metrics.h"
#include "server/http/operation/openapi.h"
#include "server/http/operation/wheel.h"
#include "server/http/serving/path_pattern.h"
#include "server/http/users/bans.h"
#include "server/http/users/clients.h"
#include "server/http/users/revocation.h"
#include "server/http/users/rooms.h"
#include "server/http/users/users.h"

namespace pulsegate {

using boost::beast::http::verb;

namespace {

/// Of a list of messages.
constexpr std::size_t most_list_bytes = 4 * 1024 * 1024;

boost::asio::awaitable<ApiReply> show_index(const ApiContext& api, const ApiRequest& request);

constexpr Route routes[] = {
    {.path = "/healthz",
     .methods = {{verb::get, show_health, any_parameters}},
     .access = Route::Access::anybody,
     .is_probe = true},
    {.path = "/readyz",
     .methods = {{verb::get, show_readiness, any_parameters}},
     .access = Route::Access::anybody,
     .is_probe = true},
    {.path = "/metrics", .methods = {{verb::get, show_metrics, any_parameters}}, .is_probe = true},
    {.path = "/chat",
     .methods = {{verb::get, show_chat, any_parameters}},
     .access = Route::Access::anybody},
    {.path = "/chat/{file}",
     .methods = {{verb::get, show_chat_file, any_parameters}},
     .access = Route::Access::anybody},
    {.path = "/api/v1", .methods = {{verb::get, show_index}}},
    {.path = "/api/v1/openapi.json", .methods = {{verb::get, show_openapi}}},
    {.path = "/api/v1/wheel", .methods = {{verb::get, show_wheel}}},
    {.path = "/api/v1/users", .methods = {{verb::get, show_users, "after limit state ids"}}},
    {.path = "/api/v1/users/{user}", .methods = {{verb::get, show_user}}},
    {.path = "/api/v1/users/{user}/revoke", .methods = {{verb::post, revoke_logins}}},
    {.path = "/api/v1/users/{user}/rooms", .methods = {{verb::get, list_rooms_of_user}}},
    {.path = "/api/v1/users/{user}/watchers",
     .methods = {{verb::get, list_members, "after limit"},
                 {verb::post, change_members},
                 {verb::delete_, remove_all_members}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/users/{user}/watchers/{watcher}",
     .methods = {{verb::put, add_member}, {verb::delete_, remove_member}}},
    {.path = "/api/v1/rooms", .methods = {{verb::get, list_rooms, "after limit"}}},
    {.path = "/api/v1/rooms/{room}/members",
     .methods = {{verb::get, list_members, "after limit"},
                 {verb::post, change_members},
                 {verb::delete_, remove_all_members}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/rooms/{room}/members/{user}",
     .methods = {{verb::put, add_member}, {verb::delete_, remove_member}}},
    {.path = "/api/v1/bans",
     .methods = {{verb::get, show_bans},
                 {verb::put, set_ban, "user client address seconds reason"},
                 {verb::delete_, lift_ban, "user client address"}}},
    {.path = "/api/v1/presence/changes",
     .methods = {{verb::get, show_presence_changes, "after limit wait"}}},
    {.path = "/api/v1/webhooks/dead",
     .methods = {{verb::get, list_dead_letters, "after"},
                 {verb::delete_, drop_dead_letters, "id all"}}},
    {.path = "/api/v1/webhooks/dead/replay", .methods = {{verb::post, replay_dead_letters, "id"}}},
    {.path = "/api/v1/clients",
     .methods = {{verb::get, show_clients, "user client"},
                 {verb::delete_, evict_clients, "user client sessions"}}},
    {.path = "/api/v1/retained",
     .methods = {{verb::get, show_retained, "filter after limit"},
                 {verb::delete_, erase_retained, "filter user"}}},
    {.path = "/api/v1/backup", .methods = {{verb::post, back_up}}},
    {.path = "/api/v1/publish",
     .methods = {{verb::post, publish}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/delayed",
     .methods = {{verb::get, list_delayed, "user after limit"},
                 {verb::post, add_delayed},
                 {verb::delete_, cancel_delayed, "user name"}},
     .most_body_bytes = most_list_bytes},
    {.path = "/api/v1/delayed/{id}",
     .methods = {{verb::get, show_delayed}, {verb::delete_, cancel_delayed}},
     .most_body_bytes = most_list_bytes},
};

boost::asio::awaitable<ApiReply> show_index(const ApiContext&, const ApiRequest&) {
    boost::json::array resources;
    for (const Route& route : routes)
        resources.push_back(
            boost::json::object{{"path", route.path}, {"methods", route.allowed()}});
    co_return api_reply({{"openapi", "/api/v1/openapi.json"}, {"resources", std::move(resources)}});
}

boost::asio::awaitable<ApiReply> show_nothing(const ApiContext&, const ApiRequest&) {
    co_return api_refusal(boost::beast::http::status::not_found,
                          "no such resource: GET /api/v1 names all");
}

constexpr Route nowhere{.path = {}, .methods = {{verb::get, show_nothing, any_parameters}}};

}  // namespace

const Route::Method* Route::method(verb asked) const {
    for (const Method& method : methods)
        if (method.answer && method.verb == (asked == verb::head ? verb::get : asked))
            return &method;
    return nullptr;
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

const Route& find_route(std::string_view path) {
    for (const Route& route : routes)
        if (path_matches(route.path, path)) return route;
    return nowhere;
}

}  // namespace pulsegate
