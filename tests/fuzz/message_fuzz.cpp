// Throws bodies of HTTP requests at the reader of messages.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/utf8.h"
#include "server/http/messages/message_json.h"
#include "server/http/serving/bad_request.h"
#include "server/session/terms/settings.h"
#include "tests/fuzz/promise.h"

namespace {

using namespace pulsegate;

struct Read {
    std::vector<std::string> topics{};
    std::string payload{};
    std::string properties{};

    bool operator==(const Read&) const = default;
};

Read read(const boost::json::value& value) {
    static const BrokerSettings settings;
    static constexpr std::string_view known[] = {
        "topic",          "topics", "inbox",  "inboxes", "room",         "rooms",      "payload",
        "payload_base64", "qos",    "retain", "expiry",  "content_type", "properties", "at"};
    const MessageMembers members(value, known);
    Read message{topics_of(members, settings), members.payload(), properties_of(members)};
    static_cast<void>(members.count("qos", 2));
    static_cast<void>(members.count("expiry", 0xffffffff));
    static_cast<void>(members.flag("retain"));
    static_cast<void>(members.moment("at"));
    for (const auto& topic : message.topics) {
        check_publishable(topic, message.payload, message.properties, settings);
        require(valid_utf8(topic), "a topic that is published to is UTF-8");
    }
    return message;
}

std::string described(const Read& message) {
    boost::json::object object{
        {"topics", boost::json::array(message.topics.begin(), message.topics.end())}};
    add_payload(object, message.payload);
    add_properties(object, message.properties);
    return boost::json::serialize(object);
}

std::vector<Read> messages_in(std::string_view body) {
    std::vector<Read> messages;
    try {
        for_each_message(body,
                         [&](const boost::json::value& value) { messages.push_back(read(value)); });
    } catch (const BadRequest& wrong) {
        require(*wrong.what() != '\0', "a refusal has a reason");
    }
    return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    for (const Read& message : messages_in(fuzzed_text(data, size))) {
        const auto again = messages_in(described(message));
        require(again.size() == 1 && again.front() == message,
                "a message that is shown and sent again is the same");
    }
    return 0;
}
