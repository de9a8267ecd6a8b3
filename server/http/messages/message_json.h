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

/// A message in a request, with its members by name. It throws BadRequest if a member is wrong. The
/// JSON must outlive it.
class MessageMembers {
public:
    /// `known` lists the allowed names; `what` names the object, if it is not a message.
    MessageMembers(const boost::json::value& value, std::span<const std::string_view> known,
                   std::string_view what = "a message");

    const boost::json::value* find(std::string_view name) const {
        return object_->if_contains(name);
    }
    std::optional<std::string> text(std::string_view name) const;
    std::optional<std::uint64_t> count(std::string_view name, std::uint64_t most) const;
    /// A time in milliseconds since 1970, from a date and time by RFC 3339 or a Unix time in
    /// seconds.
    std::optional<WallMillis> moment(std::string_view name) const;
    bool flag(std::string_view name) const;
    /// The strings of the member `one`, a string, and of the member `many`, a list.
    std::vector<std::string> texts(std::string_view one, std::string_view many) const;
    /// `payload`, or `payload_base64` decoded.
    std::string payload() const;

private:
    const boost::json::object* object_ = nullptr;
};

/// The topics of a message: those it names itself, and those of its inboxes and rooms. Throws
/// BadRequest if there are none, or if a name is invalid.
std::vector<std::string> topics_of(const MessageMembers& members, const BrokerSettings& settings);

/// `content_type` and `properties`, encoded as in MQTT 5.0. Throws BadRequest.
std::string properties_of(const MessageMembers& members);

/// Adds the payload to a message's JSON: as text, or in Base64 if it is not text.
void add_payload(boost::json::object& described, std::string_view payload);

/// Adds `content_type` and `properties` as a message in a request has them, if there are any.
void add_properties(boost::json::object& described, std::string_view properties);

/// Limits the messages of one request together.
class RequestRoom {
public:
    /// Throws BadRequest if there is no room. Call it before anything is copied.
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

/// Calls `add` with each message of the body, which is one message or a list. Throws BadRequest
/// with the number of a wrong message.
void for_each_message(std::string_view body,
                      const std::function<void(const boost::json::value&)>& add);

}  // namespace pulsegate
