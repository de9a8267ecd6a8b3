#include "server/http/messages/publish.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/utf8.h"
#include "server/backend/await_result.h"
#include "server/http/messages/message_json.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/limits/admission.h"
#include "server/message/topics.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

namespace {

/// Messages of a request that shards are busy with at a time: each may have very many receivers.
constexpr std::size_t most_under_way = 256;

constexpr std::size_t longest_text = 0xFFFF;  // MQTT 5.0, 1.5.4

/// Then the disk has been standing still, and the connection is wanted for other requests.
constexpr std::chrono::seconds patience{10};

using Orders = std::vector<std::shared_ptr<Message>>;
using Results = std::vector<Published>;

// -- from JSON --

/// No client could have it, or subscribe to its topic.
void check_name(std::string_view name, std::string_view what) {
    if (name.empty() || !valid_utf8(name) || has_control_character(name))
        throw BadRequest(
            fmt::format("the name of a {} is empty, or has a control character", what));
}

std::vector<std::string> topics_of(const MessageMembers& members, const BrokerSettings& settings) {
    auto topics = members.texts("topic", "topics");
    for (const auto& user : members.texts("inbox", "inboxes")) {
        if (!settings.inbox) throw BadRequest("there are no inboxes: the setting inbox is off");
        check_name(user, "user");
        topics.push_back(inbox_topic(user));
    }
    for (const auto& room : members.texts("room", "rooms")) {
        check_name(room, "room");
        topics.push_back(room_topic(room));
    }
    if (topics.empty()) throw BadRequest("it has no topic, inbox or room, nor a list of them");
    return topics;
}

std::string properties_of(const MessageMembers& members) {
    PropertyList list;
    const auto add = [&](const json::value* value, auto put) {
        if (!value) return;
        if (!value->is_string() || value->get_string().size() > longest_text ||
            !valid_utf8(value->get_string()))
            throw BadRequest("'content_type' or a property is no text, or longer than 65535 bytes");
        put(std::string_view(value->get_string()));
    };
    add(members.find("content_type"),
        [&](std::string_view text) { list.add(Property::content_type, text); });
    const auto* properties = members.find("properties");
    if (!properties) return std::move(list).take();
    if (!properties->is_object()) throw BadRequest("'properties' is no object");
    for (const auto& property : properties->get_object()) {
        const std::string_view key = property.key();
        if (!valid_utf8(key) || key.size() > longest_text)
            throw BadRequest("a property's name has a null character, or more than 65535 bytes");
        add(&property.value(), [&](std::string_view text) { list.add_user(key, text); });
    }
    return std::move(list).take();
}

/// One for each topic.
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

// -- what is done --

/// Messages to one topic are published in their order, for one shard does it.
void send_to_shard(const ApiContext& api, const std::shared_ptr<Message>& message,
                   OnPublished published) {
    const auto user = inbox_user(message->topic);
    api.shards.send_home(
        user.value_or(message->topic), [message, published = std::move(published)](Shard& shard) {
            shard.broker().publish(std::move(*message), published, monotonic_now());
        });
}

/// Nothing if it takes too long.
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
    co_return co_await await_result<Results>(api.io, ask,
                                             std::chrono::steady_clock::now() + patience);
}

json::object description_of(std::string topic, const Published& published) {
    const Reach& reach = published.reach;
    json::object one{{"topic", std::move(topic)}, {"sent", reach.sent}, {"queued", reach.queued}};
    if (reach.dropped > 0) one["dropped"] = reach.dropped;
    if (published.not_retained) one["retained"] = false;
    if (published.refused) one["error"] = "not stored, or not yet";
    return one;
}

}  // namespace

awaitable<ApiReply> publish(const ApiContext& api, const ApiRequest& request) {
    if (api.admission.exceeded())
        co_return api_refusal(status::insufficient_storage, "memory-budget is used up");
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
    answer["error"] =
        "the disk is in trouble: publish again what has an error or is not in the list";
    auto reply = api_reply(answer);
    reply.status = status::service_unavailable;
    co_return reply;
}

}  // namespace pulsegate
