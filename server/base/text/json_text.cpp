#include "server/base/text/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <iterator>
#include <string_view>

namespace json = boost::json;

namespace pulsegate {

namespace {

void append_json(std::string& text, std::string_view string) {
    const bool is_plain = std::ranges::all_of(string, [](char each) {
        return static_cast<unsigned char>(each) >= ' ' && each != '"' && each != '\\';
    });
    if (!is_plain) {
        text += json::serialize(string);
        return;
    }
    text += '"';
    text += string;
    text += '"';
}

void append_json(std::string& text, const json::value& value);

void append_json(std::string& text, const json::object& object) {
    text += '{';
    for (const auto& member : object) {
        if (&member != object.begin()) text += ',';
        append_json(text, std::string_view(member.key()));
        text += ':';
        append_json(text, member.value());
    }
    text += '}';
}

void append_json(std::string& text, const json::value& value) {
    if (const auto* const object = value.if_object()) {
        append_json(text, *object);
    } else if (const auto* const array = value.if_array()) {
        text += '[';
        for (const auto& element : *array) {
            if (&element != array->begin()) text += ',';
            append_json(text, element);
        }
        text += ']';
    } else if (const auto* const string = value.if_string()) {
        append_json(text, std::string_view(*string));
    } else if (value.is_double() && std::isfinite(value.get_double())) {
        fmt::format_to(std::back_inserter(text), "{}", value.get_double());
    } else {
        text += json::serialize(value);
    }
}

}  // namespace

std::string json_text(const json::value& value) {
    std::string text;
    append_json(text, value);
    return text;
}

std::string json_text(const json::object& object) {
    std::string text;
    append_json(text, object);
    return text;
}

}  // namespace pulsegate
