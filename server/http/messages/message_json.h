#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/clock.h"
#include "server/message/message.h"

namespace pulsegate {

struct BrokerSettings;

/// A message in a request, with its members by name. It throws BadRequest if one is not as it
/// should be, and it refers to the JSON.
class MessageMembers {
public:
    /// `known`: the names that it may have; `what`: what it is, if it is not a message.
    MessageMembers(const boost::json::value& value, std::span<const std::string_view> known,
                   std::string_view what = "a message");

    const boost::json::value* find(std::string_view name) const {
        return object_->if_contains(name);
    }
    std::optional<std::string> text(std::string_view name) const;
    std::optional<std::uint64_t> count(std::string_view name, std::uint64_t most) const;
    /// A moment in milliseconds since 1970: a date and time by RFC 3339, or a Unix time in seconds.
    std::optional<WallMillis> moment(std::string_view name) const;
    bool flag(std::string_view name) const;
    /// Of the string `one` and the list of strings `many`, those that are there.
    std::vector<std::string> texts(std::string_view one, std::string_view many) const;
    /// `payload`, or `payload_base64` decoded.
    std::string payload() const;

private:
    const boost::json::object* object_ = nullptr;
};

/// Where a message goes: its topics, and those of the inboxes and rooms that it names. Throws
/// BadRequest if there are none, or a name can't be one.
std::vector<std::string> topics_of(const MessageMembers& members, const BrokerSettings& settings);

/// `content_type` and `properties`, as MQTT 5.0 writes them. Throws BadRequest.
std::string properties_of(const MessageMembers& members);

/// Adds the payload to a message that is described: as text, or in Base64 if it is none.
void add_payload(boost::json::object& described, std::string_view payload);

/// Adds `content_type` and `properties` as a message in a request has them, if there are any.
void add_properties(boost::json::object& described, std::string_view properties);

/// What the messages of one request may be together.
class RequestRoom {
public:
    /// Throws BadRequest if there is none; to be asked before anything is copied for them.
    void take(std::size_t messages, std::size_t bytes_each);
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t messages_ = 0;
    std::size_t bytes_ = 0;
};

/// Throws BadRequest if the message is to be retained and the gateway retains none.
void check_retain(const Message& message, const BrokerSettings& settings);

/// Throws BadRequest unless the API may publish this.
void check_publishable(std::string_view topic, std::string_view payload,
                       std::string_view properties, const BrokerSettings& settings);

/// Calls `add` with the message that is the body, or with each of the list that it is. Throws
/// BadRequest, with the number of the message that is wrong.
void for_each_message(std::string_view body,
                      const std::function<void(const boost::json::value&)>& add);

}  // namespace pulsegate
