#include "server/http/users/revocation.h"

#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/auth/json_claims.h"
#include "server/auth/revocations.h"
#include "server/base/log.h"
#include "server/http/messages/delayed.h"
#include "server/http/questions/commit.h"
#include "server/http/questions/eviction_steps.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/moment.h"
#include "server/login/authenticator.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

/// Rounds up to a second, because tokens are issued in whole seconds.
std::optional<std::int64_t> seconds_in(const json::value& before) {
    const auto moment = moment_in(before);
    if (!moment) return std::nullopt;
    return (*moment + 999) / 1000;
}

/// Seconds since 1970. Tokens of the present second stay valid, because a user who logs out
/// everywhere may get a new one in the same second.
std::int64_t revoked_before(std::string_view body) {
    if (body.empty()) return unix_now();
    constexpr const char* wanted =
        R"(the body is nothing, or {"before": TIME} with a time as in "2026-11-27T16:00:00Z" or a Unix time in seconds)";
    const auto members = read_object(body);
    if (!members || members->size() > 1) throw BadRequest(ApiError::bad_json, wanted);
    if (members->empty()) return unix_now();
    const auto* const before = members->if_contains("before");
    const auto moment = before ? seconds_in(*before) : std::nullopt;
    if (!moment) throw BadRequest(ApiError::bad_member, wanted);
    constexpr std::int64_t clocks_differ = 60;
    if (*moment < 0 || *moment > unix_now() + clocks_differ)
        throw BadRequest(ApiError::bad_member,
                         "'before' is not between 1970 and now: write a number in seconds");
    return *moment;
}

std::vector<Operation> revocation_operations(const std::string& user, std::int64_t before) {
    std::vector<Operation> operations;
    operations.emplace_back(PutRevocation{user, before});
    return operations;
}

}  // namespace

awaitable<ApiReply> revoke_logins(const ApiContext& api, const ApiRequest& request) {
    const auto named = request.segment("user");
    if (!named || !valid_user(*named))
        throw BadRequest(ApiError::bad_path, "the path does not name a user");
    const std::string& user = *named;
    const std::int64_t before = revoked_before(request.body);
    const auto at_home = [user, before](ShardAdmin& shard) {
        return shard.revocations().revoke(user, before, monotonic_now());
    };
    const auto revoked = co_await api.shards.ask_home(user, at_home);
    if (!revoked) co_return shard_unavailable();
    if (!*revoked)
        co_return api_refusal(ApiError::limit_reached,
                              "the logins of too many users are revoked already");
    const Commit commit(api, revocation_operations(user, before));
    api.authenticator.forget(user);
    const Eviction eviction{.user = user,
                            .drops_wills = true,
                            .arrived_by = wall_now(),
                            .tokens_spared_since = before,
                            .why = "its user's logins were revoked"};
    const auto evicted = co_await evict_all(api, eviction);
    std::vector<DelayedByClients> delayed;
    delayed.push_back({.user = user, .tokens_spared_since = before});
    const bool cancelled = co_await cancel_of_clients(api, std::move(delayed));
    const bool is_stored = co_await commit.done() && cancelled;
    if (!evicted) co_return shard_unavailable();
    log_line(spdlog::level::info,
             "the HTTP API has revoked the tokens of user {} from before {}, and disconnected {} "
             "clients",
             LoggedUser{user}, rfc3339(before * 1000), evicted->disconnected);
    if (!is_stored)
        co_return store_refusal(api,
                                "the tokens are revoked, but may be valid again after the next "
                                "start of the gateway, and delayed messages may still come");
    co_return api_reply({{"user", user},
                         {"before", rfc3339(before * 1000)},
                         {"disconnected", evicted->disconnected}});
}

}  // namespace pulsegate
