#include "server/http/messages/publish.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/backend/await_result.h"
#include "server/http/messages/message_json.h"
#include "server/http/messages/once.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/limits/admission.h"
#include "server/message/topics.h"
#include "server/session/broker_admin.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

/// The maximum number of messages of a request that shards handle at a time, because each may have
/// very many receivers.
constexpr std::size_t most_under_way = 256;

using Orders = std::vector<std::shared_ptr<Message>>;
using Results = std::vector<Published>;

// -- from JSON --

/// One message for each topic.
void add_messages(Orders& orders, RequestRoom& room, const json::value& value,
                  const BrokerSettings& settings) {
    constexpr std::string_view known[] = {
        "topic",          "topics", "inbox",  "inboxes", "room",         "rooms",     "payload",
        "payload_base64", "qos",    "retain", "expiry",  "content_type", "properties"};
    const MessageMembers members(value, known);
    const auto topics = topics_of(members, settings);
    Message message{
        .topic = {}, .payload = members.payload(), .properties = properties_of(members)};
    message.qos = static_cast<QoS>(members.count("qos", 2).value_or(1));
    message.retain = members.flag("retain");
    check_retain(message, settings);
    if (const auto seconds = members.count("expiry", 0xffffffff))
        message.expires = monotonic_now() + static_cast<Millis>(*seconds) * 1000;
    room.take(topics.size(), message.cost());
    for (const auto& topic : topics) {
        check_publishable(topic, message.payload, message.properties, settings);
        orders.push_back(std::make_shared<Message>(message));
        orders.back()->topic = topic;
    }
}

Orders orders_in(std::string_view body, const BrokerSettings& settings) {
    Orders orders;
    RequestRoom room;
    for_each_message(
        body, [&](const json::value& value) { add_messages(orders, room, value, settings); });
    return orders;
}

// -- publishing --

/// One shard publishes all messages to a topic, so they keep their order.
void send_to_shard(const ApiContext& api, const std::shared_ptr<Message>& message,
                   OnPublished published) {
    const auto user = inbox_user(message->topic);
    api.shards.send_home(user.value_or(message->topic), [message, published = std::move(published)](
                                                            ShardAdmin& shard) {
        shard.broker().publish(std::move(*message), published, monotonic_now());
    });
}

/// Returns nothing if it takes too long.
awaitable<Results> publish_some(const ApiContext& api, std::span<std::shared_ptr<Message>> orders) {
    struct UnderWay {
        explicit UnderWay(std::size_t count) : results(count), left(count) {}
        Results results;
        std::atomic<std::size_t> left;
    };
    auto ask = [&](auto answer) {
        const auto under_way = std::make_shared<UnderWay>(orders.size());
        for (std::size_t i = 0; i < orders.size(); ++i)
            send_to_shard(api, orders[i], [under_way, answer, i](const Published& published) {
                under_way->results[i] = published;
                if (--under_way->left == 0) answer(std::move(under_way->results));
            });
    };
    co_return co_await await_result<Results>(api.io, ask, store_deadline());
}

json::object description_of(std::string topic, const Published& published) {
    const Reach& reach = published.reach;
    json::object one{{"topic", std::move(topic)}, {"sent", reach.sent}, {"queued", reach.queued}};
    if (reach.dropped > 0) one["dropped"] = reach.dropped;
    if (published.not_retained) one["retained"] = false;
    if (published.refused)
        for (auto& member :
             error_json(ApiError::not_stored, "the message is not stored, or not stored yet"))
            one.insert(std::move(member));
    return one;
}

awaitable<ApiReply> publish_all(const ApiContext& api, const ApiRequest& request) {
    if (api.admission.exceeded())
        co_return api_refusal(ApiError::memory_used_up, "memory-budget is used up");
    Orders orders = orders_in(request.body, api.settings);
    json::array done;
    bool refused = false;
    for (std::span<std::shared_ptr<Message>> left(orders); !left.empty();) {
        const auto now = left.first(std::min(left.size(), most_under_way));
        left = left.subspan(now.size());
        std::vector<std::string> topics;
        for (const auto& message : now) topics.push_back(message->topic);
        Results results = co_await publish_some(api, now);
        const bool in_time = !results.empty();
        if (!in_time) results.assign(topics.size(), {.refused = true});
        for (std::size_t i = 0; i < results.size(); ++i) {
            done.push_back(description_of(std::move(topics[i]), results[i]));
            refused |= results[i].refused;
        }
        if (!in_time) break;
    }
    json::object answer{{"published", std::move(done)}};
    if (!refused) co_return api_reply(answer);
    co_return store_refusal(api, "publish again what has an error or is not in the list",
                            std::move(answer));
}

}  // namespace

awaitable<ApiReply> publish(const ApiContext& api, const ApiRequest& request) {
    co_return co_await answer_once(api, request, publish_all);
}

}  // namespace pulsegate
