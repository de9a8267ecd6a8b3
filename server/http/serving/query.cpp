#include "server/http/serving/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "server/base/text/date.h"
#include "server/base/text/url.h"
#include "server/http/serving/bad_request.h"

namespace pulsegate {

namespace {

/// Cuts the part before the first separator off a text.
std::string_view cut(std::string_view& text, char separator) {
    const auto part = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    return part;
}

bool has_word(std::string_view words, std::string_view wanted) {
    while (!words.empty())
        if (cut(words, ' ') == wanted) return true;
    return false;
}

}  // namespace

Query::Query(std::string_view encoded, std::string_view known) {
    while (!encoded.empty()) {
        auto value = cut(encoded, '&');
        const auto key = cut(value, '=');
        if (!has_word(known, key))
            throw BadRequest(ApiError::unknown_parameter,
                             known.empty()
                                 ? fmt::format("'{}': this request takes no parameters", key)
                                 : fmt::format("'{}': this request takes only {}", key, known));
        if (has(key))
            throw BadRequest(ApiError::repeated_parameter, fmt::format("'{}' is given twice", key));
        if (value.empty() || !percent_decoded(value))
            throw BadRequest(
                ApiError::bad_parameter,
                fmt::format("'{}' has no value, or one that is not percent-encoded UTF-8", key));
        encoded_.emplace(key, value);
    }
}

std::optional<std::string> Query::text(std::string_view key) const {
    const auto found = encoded_.find(key);
    return found == encoded_.end() ? std::nullopt : percent_decoded(found->second);
}

std::vector<std::string> Query::list(std::string_view key) const {
    std::vector<std::string> values;
    const auto found = encoded_.find(key);
    if (found == encoded_.end()) return values;
    for (std::string_view rest = found->second; !rest.empty();)
        values.push_back(percent_decoded(cut(rest, ',')).value_or(""));
    return values;
}

std::optional<std::uint64_t> Query::number(std::string_view key, std::uint64_t least,
                                           std::uint64_t most) const {
    const auto digits = text(key);
    if (!digits) return std::nullopt;
    std::uint64_t number = 0;
    const auto* const end = digits->data() + digits->size();
    const auto read = std::from_chars(digits->data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < least || number > most)
        throw BadRequest(ApiError::bad_parameter,
                         fmt::format("'{}' is not a number from {} to {}", key, least, most));
    return number;
}

std::optional<WallMillis> Query::moment(std::string_view key) const {
    const auto date = text(key);
    if (!date) return std::nullopt;
    const auto moment = parse_rfc3339(*date);
    if (!moment)
        throw BadRequest(ApiError::bad_parameter,
                         fmt::format("'{}' is not a time like 2026-11-26T16:00:00Z", key));
    return moment;
}

std::size_t page_size(const Query& query) {
    constexpr std::size_t usual = 100;
    constexpr std::size_t most = 1000;
    return query.number("limit", 1, most).value_or(usual);
}

}  // namespace pulsegate
