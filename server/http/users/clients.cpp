#include "server/http/users/clients.h"

#include <boost/json/array.hpp>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/http/questions/eviction_steps.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/http/users/client_json.h"
#include "server/http/users/client_list.h"
#include "server/session/broker_admin.h"
#include "server/session/client_description.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::size_t most_described = 1000;

json::array filters_json(const ClientDescription& client) {
    json::array filters;
    for (const auto& [filter, qos] : client.filters)
        filters.push_back(json::object{{"filter", filter}, {"qos", static_cast<int>(qos)}});
    return filters;
}

/// The user or client that a request names.
struct Named {
    std::string user{};
    std::optional<std::string> client{};
    bool ends_sessions = false;
};

Named named_in(const Query& query) {
    const auto sessions = query.text("sessions");
    if (sessions.value_or("end") != "end")
        throw BadRequest(ApiError::bad_parameter, "'sessions' must be 'end'");
    const auto user = query.text("user");
    if (!user)
        throw BadRequest(ApiError::missing_parameter,
                         "no client is named: add ?user=alice, or ?user=alice&client=alice-phone");
    return {*user, query.text("client"), sessions.has_value()};
}

ApiReply no_such_client() { return api_refusal(ApiError::unknown_client, "no such client"); }

awaitable<ApiReply> show_client(const ApiContext& api, Named named) {
    const auto question = [user = named.user, client = *named.client](ShardAdmin& shard) {
        return shard.broker().client(user, client, monotonic_now());
    };
    const auto answer = co_await api.shards.ask_home(named.user, question);
    if (!answer) co_return shard_unavailable();
    if (answer->clients.empty()) co_return no_such_client();
    json::object one = to_json(answer->clients.front(), monotonic_now(), wall_now());
    one["filters"] = filters_json(answer->clients.front());
    json::array all;
    all.push_back(std::move(one));
    co_return api_reply({{"user", named.user}, {"clients", std::move(all)}});
}

/// Describes the user's clients in several rounds of their shard. A client that moves in the list
/// meanwhile is not described twice.
awaitable<ApiReply> show_all_clients(const ApiContext& api, std::string user) {
    json::array all;
    std::set<SessionId> known;
    bool more = true;
    while (more && all.size() < most_described) {
        const auto question = [user, known, most = most_described - all.size()](ShardAdmin& shard) {
            return shard.broker().clients(user, known, most, monotonic_now());
        };
        const auto answer = co_await api.shards.ask_home(user, question);
        if (!answer) co_return shard_unavailable();
        for (const ClientDescription& each : answer->clients) {
            all.push_back(to_json(each, monotonic_now(), wall_now()));
            known.insert(each.session);
        }
        more = answer->more;
    }
    if (all.empty()) co_return no_such_client();
    json::object body{{"user", user}, {"clients", std::move(all)}};
    if (more) body["more"] = true;
    co_return api_reply(body);
}

}  // namespace

awaitable<ApiReply> show_clients(const ApiContext& api, const ApiRequest& request) {
    if (asks_for_a_list(request.query)) co_return co_await list_clients(api, request.query);
    Named named = named_in(request.query);
    if (named.client) co_return co_await show_client(api, std::move(named));
    co_return co_await show_all_clients(api, std::move(named.user));
}

/// Disconnects only clients that logged in before the request. Otherwise a client that returns at
/// once would be disconnected again and again.
awaitable<ApiReply> evict_clients(const ApiContext& api, const ApiRequest& request) {
    const Named named = named_in(request.query);
    const Eviction eviction{.user = named.user,
                            .client = named.client,
                            .ends_sessions = named.ends_sessions,
                            .arrived_by = wall_now()};
    const auto evicted = co_await evict_all(api, eviction);
    if (!evicted) co_return shard_unavailable();
    const Evicted& all = *evicted;
    if (all.clients() == 0) co_return no_such_client();
    if (all.ended > 0 && !co_await is_stored_by(api, api.shards.home_of(named.user)))
        co_return store_refusal(api, "the sessions may come back at the next start of the gateway");
    log_line(spdlog::level::info,
             "the HTTP API has disconnected {} clients of user {}, and ended {} sessions",
             all.disconnected, LoggedUser{named.user}, all.ended);
    co_return api_reply({{"disconnected", all.disconnected}, {"ended", all.ended}});
}

}  // namespace pulsegate
