#include "server/http/users/erasure.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/http/messages/delayed.h"
#include "server/http/messages/retained.h"
#include "server/http/questions/eviction_steps.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/users/inboxes.h"
#include "server/message/topics.h"
#include "server/session/broker_admin.h"
#include "server/session/inbox_access.h"
#include "server/session/rooms/rooms.h"

namespace pulsegate {

using boost::asio::awaitable;

namespace {

constexpr std::size_t members_removed_a_turn = 1000;

/// Removes the user from some rooms. Returns how many.
std::size_t leave_some_rooms(Rooms& rooms, const std::string& user) {
    const auto found = rooms.rooms_of(user, "", members_removed_a_turn);
    for (const auto& topic : found.topics) rooms.remove(topic, user);
    return found.topics.size();
}

awaitable<std::optional<std::size_t>> leave_rooms(const ApiContext& api, std::string user) {
    const auto step = [user](ShardAdmin& shard) {
        return leave_some_rooms(shard.broker().rooms(), user);
    };
    std::size_t all = 0;
    for (bool more = true; more;) {
        const auto left = co_await api.shards.ask_home(user, step);
        if (!left) co_return std::nullopt;
        all += *left;
        more = *left > 0;
    }
    co_return all;
}

/// Removes the list of users that may see the user's presence.
awaitable<std::optional<std::size_t>> remove_watchers(const ApiContext& api, std::string user) {
    const auto step = [topic = presence_topic(user)](ShardAdmin& shard) {
        return shard.broker().rooms().remove_some(topic, members_removed_a_turn);
    };
    std::size_t all = 0;
    for (std::size_t shard = 0; shard < api.shards.shards(); ++shard) {
        for (bool more = true; more;) {
            const auto removed = co_await api.shards.ask_one(shard, step);
            if (!removed) co_return std::nullopt;
            all += *removed;
            more = *removed == members_removed_a_turn;
        }
    }
    co_return all;
}

/// Forgets the user on all shards; the home shard also removes the presence. True if the user was
/// known and no client has come back.
awaitable<std::optional<bool>> forget_user(const ApiContext& api, std::string user) {
    const auto step = [user](ShardAdmin& shard) { return shard.broker().forget_user(user); };
    bool is_forgotten = false;
    const auto answers = co_await api.shards.ask_all(step);
    for (const auto& answer : answers) {
        if (!answer) co_return std::nullopt;
        is_forgotten |= *answer;
    }
    co_return is_forgotten;
}

}  // namespace

awaitable<ApiReply> erase_user(const ApiContext& api, const ApiRequest& request) {
    const auto segment = request.segment("user");
    if (!segment)
        co_return api_refusal(ApiError::bad_path, "the path is not percent-encoded UTF-8");
    const std::string& user = *segment;
    const Eviction eviction{.user = user,
                            .ends_sessions = true,
                            .drops_wills = true,
                            .arrived_by = wall_now(),
                            .why = "the user is erased"};
    const auto evicted = co_await evict_all(api, eviction);
    if (!evicted) co_return shard_unavailable();
    const auto inbox = co_await drop_inbox(api, user);
    if (!inbox) co_return shard_unavailable();
    const auto rooms = co_await leave_rooms(api, user);
    if (!rooms) co_return shard_unavailable();
    const auto watchers = co_await remove_watchers(api, user);
    if (!watchers) co_return shard_unavailable();
    const auto retained = co_await erase_retained_of(api, user);
    if (!retained) co_return shard_unavailable();
    const auto delayed = co_await cancel_all_of(api, user);
    const auto presence = co_await forget_user(api, user);
    if (!presence) co_return shard_unavailable();
    if (!delayed || !co_await is_stored_by_all(api))
        co_return api_refusal(ApiError::not_stored,
                              "the disk is in trouble: some data of the user may come back at the "
                              "next start of the gateway; erase the user again");
    log_line(spdlog::level::info, "the HTTP API has erased user {}", LoggedUser{user});
    co_return api_reply({{"user", user},
                         {"disconnected", evicted->disconnected},
                         {"sessions", evicted->ended},
                         {"inbox", inbox->messages},
                         {"rooms", *rooms},
                         {"watchers", *watchers},
                         {"retained", *retained},
                         {"delayed", *delayed},
                         {"presence", *presence}});
}

}  // namespace pulsegate
