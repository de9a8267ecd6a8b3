#include "server/http/users/users.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "server/base/hash.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/session/users/presence.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

namespace {

constexpr std::size_t most_users_asked = 1000;
/// In one turn of a shard, each with its first devices.
constexpr std::size_t described_a_turn = 100;

/// As JSON, in the order of their names; an empty element for each unknown user.
using Presences = std::vector<std::optional<std::string>>;

/// Nothing if a shard does not answer in time.
awaitable<std::optional<Presences>> describe(const ShardQuestions& shards,
                                             const std::vector<std::string>& names) {
    const auto shared = std::make_shared<const std::vector<std::string>>(names);
    Presences described(shared->size());
    for (std::size_t first = 0; first < described.size(); first += described_a_turn) {
        const auto count = std::min(described_a_turn, described.size() - first);
        const auto question = [shared, first, count](Shard& shard) {
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

/// Behind which user a page begins: shards come one after the other, and on each the users in the
/// order of their last change.
struct UserCursor {
    std::size_t shard = 0;
    PresencePosition position{};
};

/// Hashes of names are nobody's business.
std::uint64_t masked(std::uint64_t hash) {
    return hash ^ keyed_hash("where the users of a page are");
}

std::string cursor_text(const UserCursor& cursor) {
    return fmt::format("{}-{}-{:x}", cursor.shard, cursor.position.version,
                       masked(cursor.position.user));
}

UserCursor cursor_in(std::string_view text, std::size_t shards) {
    UserCursor cursor;
    const auto number = [&](auto& to, char separator, int base) {
        const auto digits = text.substr(0, text.find(separator));
        text.remove_prefix(std::min(text.size(), digits.size() + 1));
        const auto* const end = digits.data() + digits.size();
        const auto read = std::from_chars(digits.data(), end, to, base);
        return read.ec == std::errc() && read.ptr == end;
    };
    std::uint64_t user = 0;
    const bool whole = number(cursor.shard, '-', 10) && number(cursor.position.version, '-', 10) &&
                       number(user, '\0', 16) && text.empty();
    if (!whole || cursor.shard >= shards)
        throw BadRequest("'after' is not what an answer has named 'next'");
    cursor.position.user = masked(user);
    return cursor;
}

struct UsersFound {
    std::vector<std::string> users{};  ///< as JSON
    std::optional<PresencePosition> next{};
};

UsersFound some_users(const Presence& presence, PresencePosition after, std::size_t most,
                      bool online_only) {
    constexpr std::size_t examined_a_turn = 1000;
    const Millis now = monotonic_now();
    const WallMillis wall = wall_now();
    UsersFound found;
    found.next = presence.visit(after, examined_a_turn, [&](const User& user) {
        if (user.is_known() && (user.online() || !online_only))
            found.users.push_back(to_json(user, now, wall));
        return found.users.size() < most;
    });
    return found;
}

awaitable<ApiReply> show_page(const ApiContext& api, const Query& query) {
    const auto state = query.text("state");
    if (state.value_or("online") != "online") throw BadRequest("'state' can be 'online' only");
    const auto most = page_size(query);
    UserCursor cursor;
    if (const auto after = query.text("after")) cursor = cursor_in(*after, api.shards.shards());
    json::array page;
    while (cursor.shard < api.shards.shards() && page.size() < most) {
        const auto question = [after = cursor.position,
                               left = std::min(most - page.size(), described_a_turn),
                               online_only = state.has_value()](Shard& shard) {
            return some_users(shard.broker().presence(), after, left, online_only);
        };
        const auto found = co_await api.shards.ask_one(cursor.shard, question);
        if (!found) co_return shard_unavailable();
        for (const auto& user : found->users) page.push_back(json::parse(user));
        cursor =
            found->next ? UserCursor{cursor.shard, *found->next} : UserCursor{cursor.shard + 1, {}};
    }
    json::object body{{"users", std::move(page)}};
    if (cursor.shard < api.shards.shards()) body["next"] = cursor_text(cursor);
    co_return api_reply(body);
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
    const Query& query = request.query;
    if (!query.has("ids")) co_return co_await show_page(api, query);
    for (const char* const of_pages : {"after", "limit", "state"})
        if (query.has(of_pages))
            throw BadRequest(fmt::format("'{}' does not go with ids", of_pages));
    const std::vector<std::string> names = query.list("ids");
    if (names.size() > most_users_asked)
        throw BadRequest("too many users in one request: name 1000 at most");
    const auto described = co_await describe(api.shards, names);
    if (!described) co_return shard_unavailable();
    co_return users_reply(names, *described);
}

}  // namespace pulsegate
