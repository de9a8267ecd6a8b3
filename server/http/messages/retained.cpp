#include "server/http/messages/retained.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/http/messages/message_json.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/message/topics.h"
#include "server/session/broker_admin.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr const char* no_filter =
    "filter is not a topic filter; percent-encode '#' as %23, '+' as %2B";

/// An answer is not much longer than this, whatever `limit` says.
constexpr std::size_t most_retained_answer = 4 * 1024 * 1024;

/// A part of an answer, from one round of a shard.
struct RetainedPage {
    std::vector<MessageRef> messages{};
    std::size_t bytes = 0;
    std::string after{};  ///< the topic to continue after; "": there are no more
};

json::object retained_json(const Message& message, Millis now) {
    json::object one{{"topic", message.topic},
                     {"qos", static_cast<int>(message.qos)},
                     {"bytes", message.payload.size()}};
    if (message.expires != 0) one["expiry"] = std::max<Millis>(message.expires - now, 0) / 1000;
    add_payload(one, message.payload);
    add_properties(one, message.properties);
    return one;
}

RetainedPage some_retained(const Retained& retained, const std::string& filter,
                           const std::string& after, std::size_t most, std::size_t most_bytes) {
    constexpr std::size_t examined_a_turn = 2000;
    std::size_t left = examined_a_turn;
    RetainedPage page;
    const auto add = [&](const MessageRef& message) {
        page.messages.push_back(message);
        page.bytes += message->cost();
        return page.messages.size() < most && page.bytes < most_bytes;
    };
    page.after = retained.visit(filter, after, left, monotonic_now(), add);
    return page;
}

/// True if there is a message after this topic. Nothing if a shard does not answer in time.
awaitable<std::optional<bool>> has_retained(const ApiContext& api, std::string filter,
                                            std::string after) {
    while (!after.empty()) {
        const auto question = [filter, after](ShardAdmin& shard) {
            return some_retained(shard.broker().retained(), filter, after, 1, 1);
        };
        auto page = co_await api.shards.ask_one(0, question);
        if (!page) co_return std::nullopt;
        if (!page->messages.empty()) co_return true;
        after = std::move(page->after);
    }
    co_return false;
}

/// Erases messages on all shards. Nothing if one of them does not answer in time.
awaitable<std::optional<std::size_t>> erase(const ApiContext& api, Retained::Erasure erasure) {
    std::size_t erased = 0;
    for (std::size_t shard = 0; shard < api.shards.shards(); ++shard) {
        Retained::Erasure here = erasure;
        while (!here.done) {
            const auto step = [here](ShardAdmin& each) {
                auto next = here;
                each.broker().erase(next, monotonic_now());
                return next;
            };
            const auto answer = co_await api.shards.ask_one(shard, step);
            if (!answer) co_return std::nullopt;
            here = *answer;
        }
        erased = std::max(erased, here.erased);
    }
    co_return erased;
}

}  // namespace

/// All shards keep the same messages, so any of them can answer.
awaitable<ApiReply> show_retained(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto filter = query.text("filter").value_or("#");
    if (!is_plain_filter(filter)) throw BadRequest(ApiError::bad_parameter, no_filter);
    const auto most = page_size(query);
    json::array shown;
    std::size_t bytes = 0;
    std::string after = query.text("after").value_or("");
    do {
        const auto question = [filter, after, most = most - shown.size(),
                               room = most_retained_answer - bytes](ShardAdmin& shard) {
            return some_retained(shard.broker().retained(), filter, after, most, room);
        };
        auto page = co_await api.shards.ask_one(0, question);
        if (!page) co_return shard_unavailable();
        for (const MessageRef& message : page->messages)
            shown.push_back(retained_json(*message, monotonic_now()));
        bytes += page->bytes;
        after = std::move(page->after);
    } while (!after.empty() && shown.size() < most && bytes < most_retained_answer);
    json::object body{{"retained", std::move(shown)}};
    const auto more = co_await has_retained(api, filter, after);
    if (!more) co_return shard_unavailable();
    if (*more) body["next"] = after;
    co_return api_reply(body);
}

awaitable<ApiReply> erase_retained(const ApiContext& api, const ApiRequest& request) {
    const auto filter = request.query.text("filter");
    const auto user = request.query.text("user");
    if (!filter && !user)
        throw BadRequest(ApiError::missing_parameter,
                         "no message is named: add ?filter=room/%23, or ?user=alice, or both");
    if (filter && !is_plain_filter(*filter)) throw BadRequest(ApiError::bad_parameter, no_filter);
    Retained::Erasure erasure{.filter = filter.value_or("#"), .sender = {}, .stamp = next_stamp()};
    if (user) erasure.sender = fingerprint(*user);
    const auto erased = co_await erase(api, erasure);
    if (!erased) co_return shard_unavailable();
    spdlog::info("{} retained messages deleted by the HTTP API", *erased);
    co_return api_reply({{"deleted", *erased}});
}

awaitable<std::optional<std::size_t>> erase_retained_of(const ApiContext& api, std::string user) {
    const Retained::Erasure erasure{
        .filter = "#", .sender = fingerprint(user), .stamp = next_stamp()};
    co_return co_await erase(api, erasure);
}

}  // namespace pulsegate
