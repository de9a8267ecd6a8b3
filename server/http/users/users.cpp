#include "server/http/users/users.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/http/users/shard_cursor.h"
#include "server/http/users/shard_pages.h"
#include "server/session/broker_admin.h"
#include "server/session/users/presence.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::size_t most_users_asked = 1000;
/// The most users in one round of a shard, each with its first devices.
constexpr std::size_t described_a_turn = 100;

/// The users as JSON, in the order of the names; empty for each unknown user.
using Presences = std::vector<std::optional<std::string>>;

/// Nothing if a shard does not answer in time.
awaitable<std::optional<Presences>> describe(const ShardQuestions& shards,
                                             const std::vector<std::string>& names) {
    const auto shared = std::make_shared<const std::vector<std::string>>(names);
    Presences described(shared->size());
    for (std::size_t first = 0; first < described.size(); first += described_a_turn) {
        const auto count = std::min(described_a_turn, described.size() - first);
        const auto question = [shared, first, count](ShardAdmin& shard) {
            Presences found;
            for (std::size_t i = first; i < first + count; ++i)
                found.push_back(shard.broker().describe((*shared)[i], monotonic_now()));
            return found;
        };
        const auto answers = co_await shards.ask_all(question);
        for (const auto& answer : answers) {
            if (!answer) co_return std::nullopt;
            for (std::size_t i = 0; i < count; ++i)
                if ((*answer)[i]) described[first + i] = (*answer)[i];
        }
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
    return api_reply({{"users", std::move(known)}, {"unknown", std::move(unknown)}});
}

// -- page by page --

struct UsersFound {
    std::vector<std::string> users{};  ///< as JSON
    std::optional<PresencePosition> next{};
};

UsersFound some_users(const Presence& presence, PresencePosition after, std::size_t most,
                      std::optional<bool> online) {
    constexpr std::size_t examined_a_turn = 1000;
    const Millis now = monotonic_now();
    const WallMillis wall = wall_now();
    UsersFound found;
    std::size_t bytes = 0;
    found.next = presence.visit(after, examined_a_turn, [&](const User& user) {
        if (user.is_known() && user.online() == online.value_or(user.online())) {
            found.users.push_back(to_json(user, now, wall));
            bytes += found.users.back().size();
        }
        return found.users.size() < most && bytes < most_page_bytes;
    });
    return found;
}

/// Reads some users after the cursor, which it moves. False if a shard does not answer in time.
awaitable<bool> add_users(const ApiContext& api, std::optional<bool> online, std::size_t most,
                          ShardCursor& cursor, ShardPage& page) {
    const auto question = [online, after = cursor.user,
                           left = std::min(most, described_a_turn)](ShardAdmin& shard) {
        return some_users(shard.broker().presence(), after, left, online);
    };
    const auto found = co_await api.shards.ask_one(cursor.shard, question);
    if (!found) co_return false;
    for (const auto& user : found->users) {
        page.entries.push_back(json::parse(user));
        page.bytes += user.size();
    }
    cursor = found->next ? ShardCursor{cursor.shard, *found->next}
                         : ShardCursor{.shard = cursor.shard + 1};
    co_return true;
}

std::optional<bool> online_in(const Query& query) {
    const auto state = query.text("state");
    if (!state) return std::nullopt;
    if (*state != "online" && *state != "offline")
        throw BadRequest(ApiError::bad_parameter, "'state' can be 'online' or 'offline'");
    return *state == "online";
}

awaitable<ApiReply> show_page(const ApiContext& api, const Query& query) {
    const auto online = online_in(query);
    const auto most = page_size(query);
    const auto end = api.shards.shards();
    ShardCursor cursor;
    if (const auto after = query.text("after"))
        cursor = ShardCursor::parse(*after, end, ShardCursor::Within::users);
    const auto add = [&api, online](std::size_t left, ShardCursor& at, ShardPage& page) {
        return add_users(api, online, left, at, page);
    };
    co_return co_await reply_with_page("users", most, cursor, end, add);
}

}  // namespace

awaitable<ApiReply> show_user(const ApiContext& api, const ApiRequest& request) {
    const auto name = request.segment("user");
    if (!name) co_return api_refusal(ApiError::bad_path, "the path is not percent-encoded UTF-8");
    const auto question = [user = *name](ShardAdmin& shard) {
        return shard.broker().describe(user, monotonic_now());
    };
    const auto answer = co_await api.shards.ask_home(*name, question);
    if (!answer) co_return shard_unavailable();
    const auto& described = *answer;
    if (described) co_return ApiReply{.body = *described};
    json::object named{{"user", *name}};
    co_return api_refusal(ApiError::unknown_user, "unknown user", std::move(named));
}

awaitable<ApiReply> show_users(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    if (!query.has("ids")) co_return co_await show_page(api, query);
    for (const char* const of_pages : {"after", "limit", "state"})
        if (query.has(of_pages))
            throw BadRequest(ApiError::conflicting_parameters,
                             fmt::format("'{}' can't be combined with ids", of_pages));
    const std::vector<std::string> names = query.list("ids");
    if (names.size() > most_users_asked)
        throw BadRequest(ApiError::too_many_entries,
                         "too many users in one request: name 1000 at most");
    const auto described = co_await describe(api.shards, names);
    if (!described) co_return shard_unavailable();
    co_return users_reply(names, *described);
}

}  // namespace pulsegate
