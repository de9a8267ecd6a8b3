#include "server/auth/json_claims.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "protocol/utf8.h"
#include "server/base/text/strict_json.h"

namespace pulsegate {

namespace json = boost::json;

std::optional<json::object> read_object(std::string_view text) {
    ParsedJson parsed = parse_json(text);
    if (!parsed.mistake.empty() || !parsed.value.is_object()) return std::nullopt;
    return std::move(parsed.value.get_object());
}

std::string_view text_of(const json::value& value) {
    const auto& text = value.get_string();
    return {text.data(), text.size()};
}

std::optional<std::int64_t> seconds_of(const json::value& value) {
    constexpr double most = 9e15;
    if (!value.is_number()) return std::nullopt;
    const double seconds = value.to_number<double>();
    if (!(std::abs(seconds) <= most)) return std::nullopt;
    return static_cast<std::int64_t>(std::floor(seconds));
}

bool valid_user(std::string_view name) {
    return !name.empty() && name.size() <= 65'535 && valid_utf8(name) &&
           !has_control_character(name);
}

std::string read_rules(const json::value& acl, AccessRules& rules) {
    if (!acl.is_array()) return "its acl is not an array";
    std::size_t number = 0;
    for (const auto& rule : acl.get_array()) {
        ++number;
        if (!rule.is_string()) return fmt::format("rule {} of its acl is not a string", number);
        if (const auto wrong = rules.add(text_of(rule)); !wrong.empty())
            return fmt::format("rule {} of its acl {}", number, wrong);
    }
    return {};
}

}  // namespace pulsegate
