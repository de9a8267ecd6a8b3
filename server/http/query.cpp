#include "server/http/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "server/base/url.h"
#include "server/http/bad_request.h"

namespace pulsegate {

Query::Query(std::string_view encoded, std::span<const std::string_view> known) {
    while (!encoded.empty()) {
        const auto parameter = encoded.substr(0, encoded.find('&'));
        encoded.remove_prefix(std::min(encoded.size(), parameter.size() + 1));
        const auto key = parameter.substr(0, parameter.find('='));
        auto value = percent_decoded(query_value(parameter, key).value_or(""));
        if (!value || value->empty())
            throw BadRequest(fmt::format("'{}' has no value, or one that is not UTF-8", key));
        const bool fits = std::ranges::find(known, key) != known.end() && !has(key);
        if (!fits)
            throw BadRequest(fmt::format("'{}' is not known here, or said twice", parameter));
        values_.emplace(key, *std::move(value));
    }
}

std::optional<std::string> Query::text(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint64_t> Query::number(std::string_view key, std::uint64_t least,
                                           std::uint64_t most) const {
    const auto digits = text(key);
    if (!digits) return std::nullopt;
    std::uint64_t number = 0;
    const auto* const end = digits->data() + digits->size();
    const auto read = std::from_chars(digits->data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < least || number > most)
        throw BadRequest(fmt::format("'{}' is no number from {} to {}", key, least, most));
    return number;
}

std::size_t page_size(const Query& query) {
    constexpr std::size_t usual = 100;
    constexpr std::size_t most = 1000;
    return query.number("limit", 1, most).value_or(usual);
}

}  // namespace pulsegate
