#include "loadgen/truth/presence_text.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace pulsegate::load {

namespace json = boost::json;

namespace {

constexpr std::size_t most_devices = 20;

const json::string* string_in(const json::object& object, std::string_view key) {
    const auto* value = object.if_contains(key);
    return value ? value->if_string() : nullptr;
}

bool is_cause(std::string_view cause, bool online) {
    constexpr std::array<std::string_view, 2> of_online{"login", "taken_over"};
    constexpr std::array<std::string_view, 6> of_offline{"logout", "timeout",  "connection_lost",
                                                         "kicked", "shutdown", "node_lost"};
    return online ? std::ranges::find(of_online, cause) != of_online.end()
                  : std::ranges::find(of_offline, cause) != of_offline.end();
}

bool take_devices(const json::object& object, std::vector<std::string>& devices) {
    const auto* value = object.if_contains("devices");
    const auto* list = value ? value->if_array() : nullptr;
    if (!list) return false;
    for (const json::value& each : *list) {
        const auto* device = each.if_object();
        const auto* client = device ? string_in(*device, "client") : nullptr;
        if (!client) return false;
        devices.emplace_back(*client);
    }
    return true;
}

}  // namespace

std::optional<PresenceText> read_presence(std::string_view text) {
    boost::system::error_code error;
    const auto value = json::parse(json::string_view(text.data(), text.size()), error);
    const auto* object = error ? nullptr : value.if_object();
    if (!object) return std::nullopt;
    const auto* user = string_in(*object, "user");
    const auto* state = string_in(*object, "state");
    const auto* cause = string_in(*object, "cause");
    const auto* version = object->if_contains("version");
    if (!user || !state || !cause || !version) return std::nullopt;
    PresenceText presence{.user = std::string(*user),
                          .online = *state == "online",
                          .version = version->to_number<std::uint64_t>(error),
                          .cause = std::string(*cause),
                          .devices = {}};
    const bool is_state = presence.online || *state == "offline";
    if (error || !is_state || !take_devices(*object, presence.devices)) return std::nullopt;
    return presence;
}

std::string fault_of(const PresenceText& text, std::string_view user) {
    const std::string state = text.online ? "online" : "offline";
    if (text.user != user) return "it is about " + text.user;
    if (!is_cause(text.cause, text.online)) return text.cause + " is no cause of " + state;
    if (!text.online && !text.devices.empty()) return "the user is offline and has devices";
    if (text.devices.size() > most_devices) return "it lists more than 20 devices";
    return {};
}

}  // namespace pulsegate::load
