#include "loadgen/observe/user_presence.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace pulsegate::load {

namespace json = boost::json;

std::optional<UserPresence> read_user_presence(std::string_view text) {
    boost::system::error_code error;
    const auto value = json::parse(json::string_view(text.data(), text.size()), error);
    if (error) return std::nullopt;
    return read_user_presence(value);
}

std::optional<UserPresence> read_user_presence(const json::value& value) {
    const auto* object = value.if_object();
    if (!object) return std::nullopt;
    const auto* user = object->if_contains("user");
    const auto* state = object->if_contains("state");
    const auto* version = object->if_contains("version");
    if (!user || !user->is_string() || !state || !version) return std::nullopt;
    const bool is_online = *state == "online";
    boost::system::error_code error;
    const auto number = version->to_number<std::uint64_t>(error);
    if (error || (!is_online && *state != "offline")) return std::nullopt;
    return UserPresence{std::string(user->get_string()), is_online, number};
}

}  // namespace pulsegate::load
