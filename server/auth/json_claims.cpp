#include "server/auth/json_claims.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <utility>

#include "protocol/utf8.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

std::size_t members(const json::value& value) {
    std::size_t count = 0;
    if (const auto* object = value.if_object()) {
        count = object->size();
        for (const auto& member : *object) count += members(member.value());
    } else if (const auto* array = value.if_array()) {
        for (const auto& element : *array) count += members(element);
    }
    return count;
}

/// Counts the colons outside of strings: one for each member of an object in the text.
std::size_t colons(std::string_view text) {
    std::size_t count = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string && text[i] == '\\')
            ++i;
        else if (!in_string && text[i] == ':')
            ++count;
    }
    return count;
}

}  // namespace

std::optional<json::object> read_object(std::string_view text) {
    json::error_code error;
    json::value value = json::parse(text, error);
    if (error || !value.is_object() || members(value) != colons(text)) return std::nullopt;
    return std::move(value.get_object());
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
    if (!acl.is_array()) return "its acl is no array";
    std::size_t number = 0;
    for (const auto& rule : acl.get_array()) {
        ++number;
        if (!rule.is_string()) return fmt::format("rule {} of its acl is no string", number);
        if (const auto wrong = rules.add(text_of(rule)); !wrong.empty())
            return fmt::format("rule {} of its acl {}", number, wrong);
    }
    return {};
}

}  // namespace pulsegate
