#include "loadgen/kill/presence_change.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace pulsegate::kill {

namespace json = boost::json;

std::optional<PresenceChange> read_presence_change(std::string_view text) {
    boost::system::error_code error;
    const auto value = json::parse(text, error);
    if (error) return std::nullopt;
    return read_presence_change(value);
}

std::optional<PresenceChange> read_presence_change(const json::value& value) {
    const auto* object = value.if_object();
    if (!object) return std::nullopt;
    const auto* user = object->if_contains("user");
    const auto* state = object->if_contains("state");
    const auto* version = object->if_contains("version");
    if (!user || !user->is_string() || !state || !state->is_string() || !version)
        return std::nullopt;
    boost::system::error_code error;
    const auto number = version->to_number<std::uint64_t>(error);
    if (error) return std::nullopt;
    return PresenceChange{std::string(user->get_string()),
                          {.online = state->get_string() == "online", .version = number}};
}

}  // namespace pulsegate::kill
