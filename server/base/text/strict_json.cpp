#include "server/base/text/strict_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <utility>

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

ParsedJson parse_json(std::string_view text) {
    json::error_code error;
    ParsedJson parsed{.value = json::parse(text, error)};
    if (error)
        parsed.mistake = error.message();
    else if (members(parsed.value) != colons(text))
        parsed.mistake = "an object has two members of one name";
    return parsed;
}

}  // namespace pulsegate
