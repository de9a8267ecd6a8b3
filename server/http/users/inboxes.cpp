#include "server/http/users/inboxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "server/backend/await_result.h"
#include "server/base/log.h"
#include "server/http/messages/message_json.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/session/broker_admin.h"
#include "server/session/inbox_access.h"
#include "server/session/terms/sender_name.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

/// An answer is not much longer than this, whatever `limit` says.
constexpr std::size_t most_inbox_page_bytes = 4 * 1024 * 1024;

std::string position_text(InboxPosition position) {
    return fmt::format("{}-{}", position.stamp, position.of_same_stamp);
}

InboxPosition position_in(std::string_view text) {
    InboxPosition position;
    const auto* const end = text.data() + text.size();
    const auto stamp = std::from_chars(text.data(), end, position.stamp);
    if (stamp.ec == std::errc() && stamp.ptr != end && *stamp.ptr == '-') {
        const auto number = std::from_chars(stamp.ptr + 1, end, position.of_same_stamp);
        if (number.ec == std::errc() && number.ptr == end) return position;
    }
    throw BadRequest(ApiError::bad_parameter, "'after' is not the 'next' of an earlier answer");
}

using Bodies = std::map<Stamp, MessageRef>;

/// Reads the bodies of messages that only the store has. Missing messages have left the inbox
/// meanwhile. Nothing if the store can't be read.
awaitable<std::optional<Bodies>> read_bodies(const ApiContext& api,
                                             const std::vector<InboxEntry>& page) {
    std::vector<Stamp> stamps;
    for (const InboxEntry& entry : page)
        if (!entry.message) stamps.push_back(entry.stamp);
    Bodies bodies;
    if (stamps.empty()) co_return bodies;
    using Found = std::optional<std::vector<StoredMessage>>;
    auto ask = [&api, &stamps](auto answer) {
        auto read = [answer](Outcome outcome, std::vector<StoredMessage> found) {
            answer(outcome == Outcome::committed ? Found(std::move(found)) : Found());
        };
        api.store.ledger().read_messages(std::move(stamps), std::move(read));
    };
    const auto found = co_await await_result<Found>(api.io, ask, store_deadline());
    if (!found) co_return std::nullopt;
    for (const StoredMessage& each : *found) bodies.emplace(each.stamp, each.message);
    co_return bodies;
}

json::object message_json(const BrokerSettings& settings, const InboxEntry& entry,
                          const Message& message, Millis now) {
    json::object one{{"topic", message.topic},
                     {"qos", static_cast<int>(entry.qos)},
                     {"bytes", message.payload.size()}};
    if (entry.stamp != 0) one["time"] = rfc3339(static_cast<WallMillis>(time_of(entry.stamp)));
    if (const auto from = sender_of(settings, message); !from.empty()) one["from"] = from;
    if (entry.expires != 0) one["expiry"] = std::max<Millis>(entry.expires - now, 0) / 1000;
    if (entry.is_under_way) one["under_way"] = true;
    add_payload(one, message.payload);
    add_properties(one, message.properties);
    return one;
}

json::array messages_json(const ApiContext& api, const std::vector<InboxEntry>& page,
                          const Bodies& bodies) {
    json::array messages;
    for (const InboxEntry& entry : page) {
        const auto found = bodies.find(entry.stamp);
        const MessageRef body = entry.message           ? entry.message
                                : found != bodies.end() ? found->second
                                                        : nullptr;
        if (body) messages.push_back(message_json(api.settings, entry, *body, monotonic_now()));
    }
    return messages;
}

json::object sums_json(const std::string& user, const InboxView& view) {
    json::object sums{{"user", user}, {"count", view.messages}, {"bytes", view.bytes}};
    if (view.oldest != 0) sums["oldest"] = rfc3339(static_cast<WallMillis>(time_of(view.oldest)));
    if (view.left && view.messages > 0) sums["expires"] = rfc3339(wall_now() + *view.left);
    return sums;
}

ApiReply bad_path() {
    return api_refusal(ApiError::bad_path, "the path is not percent-encoded UTF-8");
}

}  // namespace

awaitable<ApiReply> show_inbox(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto user = request.segment("user");
    if (!user) co_return bad_path();
    const bool lists = query.has("limit") || query.has("after");
    InboxPosition after;
    if (const auto behind = query.text("after")) after = position_in(*behind);
    const auto question = [name = *user, after,
                           most = lists ? page_size(query) : 0](ShardAdmin& shard) {
        return shard.broker().inbox(name, after, most, most_inbox_page_bytes, monotonic_now());
    };
    const auto view = co_await api.shards.ask_home(*user, question);
    if (!view) co_return shard_unavailable();
    json::object body = sums_json(*user, *view);
    if (lists) {
        const auto bodies = co_await read_bodies(api, view->page);
        if (!bodies) co_return store_refusal(api, "messages can't be read");
        body["messages"] = messages_json(api, view->page, *bodies);
    }
    if (lists && view->next) body["next"] = position_text(*view->next);
    co_return api_reply(body);
}

awaitable<std::optional<InboxDropped>> drop_inbox(const ApiContext& api, std::string user) {
    InboxDropped all;
    for (bool more = true; more;) {
        const auto step = [user](ShardAdmin& shard) {
            return shard.broker().drop_inbox(user, monotonic_now());
        };
        const auto dropped = co_await api.shards.ask_home(user, step);
        if (!dropped) co_return std::nullopt;
        all.messages += dropped->messages;
        all.under_way = dropped->under_way;
        more = dropped->more;
    }
    co_return all;
}

awaitable<ApiReply> empty_inbox(const ApiContext& api, const ApiRequest& request) {
    const auto user = request.segment("user");
    if (!user) co_return bad_path();
    const auto dropped = co_await drop_inbox(api, *user);
    if (!dropped) co_return shard_unavailable();
    if (!co_await is_stored_by(api, api.shards.home_of(*user)))
        co_return api_refusal(ApiError::not_stored,
                              "the disk is in trouble: the inbox is empty, but its messages may "
                              "come back at the next start of the gateway");
    if (dropped->messages > 0)
        log_line(spdlog::level::info,
                 "the HTTP API has dropped {} messages of the inbox of user {}", dropped->messages,
                 LoggedUser{*user});
    co_return api_reply(
        {{"user", *user}, {"removed", dropped->messages}, {"under_way", dropped->under_way}});
}

}  // namespace pulsegate
