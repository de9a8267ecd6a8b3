#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pulsegate {

/// The parameters of a request by which something is chosen. Whatever is wrong with them throws
/// BadRequest: with one that was overlooked, too much would be chosen.
class Query {
public:
    /// `known`: the names that there may be, each once, and with a value.
    Query(std::string_view encoded, std::span<const std::string_view> known);

    bool has(std::string_view key) const { return values_.contains(key); }
    std::optional<std::string> text(std::string_view key) const;
    std::optional<std::uint64_t> number(std::string_view key, std::uint64_t least,
                                        std::uint64_t most) const;

private:
    std::map<std::string, std::string, std::less<>> values_;
};

/// How many an answer may have, as its parameter `limit` says.
std::size_t page_size(const Query& query);

}  // namespace pulsegate
