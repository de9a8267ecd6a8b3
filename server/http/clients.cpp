#include "server/http/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/log.h"
#include "server/base/url.h"
#include "server/http/await_result.h"
#include "server/http/bad_request.h"
#include "server/http/shard_questions.h"
#include "server/session/client_description.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

namespace {

constexpr std::size_t most_described = 1000;

json::object to_json(const ClientDescription& client) {
    json::object one{{"client", client.client}, {"connected", client.peer.has_value()}};
    if (client.peer) {
        one["address"] = *client.peer;
        one["mqtt"] = client.version == Version::v5_0 ? "5.0" : "3.1.1";
    }
    one["queued"] = client.queued;
    one["queued_bytes"] = client.queued_bytes;
    one["in_flight"] = client.in_flight;
    one["subscriptions"] = client.subscriptions;
    one["session_expiry"] = client.expiry;
    return one;
}

json::array filters_json(const ClientDescription& client) {
    json::array filters;
    for (const auto& [filter, qos] : client.filters)
        filters.push_back(json::object{{"filter", filter}, {"qos", static_cast<int>(qos)}});
    return filters;
}

/// Whom a request names. Whatever is wrong is refused: without its client id it would be for all
/// clients of the user.
struct Named {
    std::string user{};
    std::optional<std::string> client{};
    bool ends_sessions = false;
};

Named named_in(std::string_view query) {
    Named named;
    while (!query.empty()) {
        const auto parameter = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), parameter.size() + 1));
        const auto key = parameter.substr(0, parameter.find('='));
        auto value = percent_decoded(query_value(parameter, key).value_or(""));
        if (!value || value->empty())
            throw BadRequest(fmt::format("'{}' has no value, or one that is not UTF-8", key));
        if (key == "user" && named.user.empty())
            named.user = *std::move(value);
        else if (key == "client" && !named.client)
            named.client = std::move(value);
        else if (key == "sessions" && value == "end" && !named.ends_sessions)
            named.ends_sessions = true;
        else
            throw BadRequest(fmt::format("'{}' is not known here, or said twice", parameter));
    }
    if (named.user.empty())
        throw BadRequest("nobody named: add ?user=alice, or ?user=alice&client=alice-phone");
    return named;
}

ApiReply no_such_client() { return api_refusal(status::not_found, "no such client"); }

awaitable<ApiReply> show(const ApiContext& api, std::string_view query) {
    const Named named = named_in(query);
    const auto question = [named](Shard& shard) {
        return shard.broker().clients(named.user, named.client, most_described);
    };
    const auto answer = co_await api.shards.ask_home(named.user, question);
    if (!answer) co_return shard_unavailable();
    if (answer->clients.empty()) co_return no_such_client();
    json::array all;
    for (const ClientDescription& each : answer->clients) {
        all.push_back(to_json(each));
        if (named.client) all.back().get_object()["filters"] = filters_json(each);
    }
    json::object body{{"user", named.user}, {"clients", std::move(all)}};
    if (answer->more) body["more"] = true;
    co_return api_reply(body);
}

/// Has the store all that the user's shard was told so far?
awaitable<bool> is_stored(const ApiContext& api, const std::string& user) {
    constexpr std::chrono::seconds patience{10};
    auto ask = [&](auto answer) {
        api.shards.send_home(user, [answer](Shard& shard) {
            shard.broker().when_stored([answer](const Published& all) { answer(!all.refused); });
        });
    };
    co_return co_await await_result<bool>(api.io, ask, std::chrono::steady_clock::now() + patience);
}

/// Those who were there when it began: who comes back at once is not thrown out for ever.
awaitable<ApiReply> evict(const ApiContext& api, std::string_view query) {
    const Named named = named_in(query);
    const Eviction eviction{named.user, named.client, named.ends_sessions, wall_now()};
    const auto step = [eviction](Shard& shard) {
        const auto some = shard.broker().evict(eviction, monotonic_now());
        shard.end_turn();  // or the next step would find them connected
        return some;
    };
    Evicted all;
    for (bool more = true; more;) {
        const auto some = co_await api.shards.ask_home(named.user, step);
        if (!some) co_return shard_unavailable();
        all.disconnected += some->disconnected;
        all.ended += some->ended;
        more = some->clients() > 0 && !named.client;
    }
    if (all.clients() == 0) co_return no_such_client();
    if (all.ended > 0 && !co_await is_stored(api, named.user))
        co_return api_refusal(status::service_unavailable,
                              "the disk is in trouble: the sessions may come back with the next "
                              "start of the gateway");
    spdlog::info("the admin API has disconnected {} clients of user {}, and ended {} sessions",
                 all.disconnected, quoted(named.user), all.ended);
    co_return api_reply({{"disconnected", all.disconnected}, {"ended", all.ended}});
}

}  // namespace

awaitable<ApiReply> show_clients(const ApiContext& api, const ApiRequest& request) {
    return or_bad_request(show(api, request.query));
}

awaitable<ApiReply> evict_clients(const ApiContext& api, const ApiRequest& request) {
    return or_bad_request(evict(api, request.query));
}

}  // namespace pulsegate
