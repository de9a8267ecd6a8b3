#include "server/http/users.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/shard_questions.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

namespace {

constexpr std::size_t most_users_asked = 1000;

/// As JSON, in the order of their names; an empty element for each unknown user.
using Presences = std::vector<std::optional<std::string>>;

/// Nothing if a shard does not answer in time.
awaitable<std::optional<Presences>> describe(const ShardQuestions& shards,
                                             const std::vector<std::string>& names) {
    const auto shared = std::make_shared<const std::vector<std::string>>(names);
    const auto question = [shared](Shard& shard) {
        Presences found;
        for (const auto& name : *shared)
            found.push_back(shard.broker().describe(name, monotonic_now()));
        return found;
    };
    const auto answers = co_await shards.ask_all(question);
    Presences described(shared->size());
    for (const auto& answer : answers) {
        if (!answer) co_return std::nullopt;
        for (std::size_t i = 0; i < described.size(); ++i)
            if ((*answer)[i]) described[i] = (*answer)[i];
    }
    co_return described;
}

ApiReply users_reply(const std::vector<std::string>& names, const Presences& described) {
    json::array known;
    json::array unknown;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (described[i])
            known.push_back(json::parse(*described[i]));
        else
            unknown.push_back(json::string(names[i]));
    }
    const bool any = !known.empty();
    json::object body{{"users", std::move(known)}, {"unknown", std::move(unknown)}};
    if (!any) body["error"] = "unknown users";
    auto reply = api_reply(body);
    if (!any) reply.status = status::not_found;
    return reply;
}

}  // namespace

awaitable<ApiReply> show_user(const ApiContext& api, const ApiRequest& request) {
    const auto name = request.segment("user");
    if (!name) co_return api_refusal(status::bad_request, "the path is not percent-encoded UTF-8");
    const auto question = [user = *name](Shard& shard) {
        return shard.broker().describe(user, monotonic_now());
    };
    const auto answer = co_await api.shards.ask_home(*name, question);
    if (!answer) co_return shard_unavailable();
    const auto& described = *answer;
    if (described) co_return ApiReply{.body = *described};
    auto reply = api_reply({{"error", "unknown user"}, {"user", *name}});
    reply.status = status::not_found;
    co_return reply;
}

awaitable<ApiReply> show_users(const ApiContext& api, const ApiRequest& request) {
    const auto ids = query_value(request.query, "ids");
    if (!ids || ids->empty())
        co_return api_refusal(status::bad_request, "no users named: add ?ids=alice,bob");
    std::vector<std::string> names;
    for (std::string_view rest = *ids; names.size() <= most_users_asked;) {
        const auto comma = rest.find(',');
        const auto name = percent_decoded(rest.substr(0, comma));
        if (!name) co_return api_refusal(status::bad_request, "ids are not percent-encoded UTF-8");
        names.push_back(*name);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
    }
    if (names.size() > most_users_asked)
        co_return api_refusal(status::bad_request,
                              "too many users in one request: name 1000 at most");
    const auto described = co_await describe(api.shards, names);
    if (!described) co_return shard_unavailable();
    co_return users_reply(names, *described);
}

}  // namespace pulsegate
