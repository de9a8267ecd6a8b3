#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// The parameters of a request. A mistake in them throws BadRequest: if a parameter were ignored, a
/// request could affect more than its sender meant.
class Query {
public:
    Query() = default;
    /// `known`: the names of parameters, separated by spaces. Each may occur once, with a value.
    Query(std::string_view encoded, std::string_view known);

    bool has(std::string_view key) const { return encoded_.contains(key); }
    std::optional<std::string> text(std::string_view key) const;
    /// The values between commas; a value may have a comma itself, as %2C.
    std::vector<std::string> list(std::string_view key) const;
    std::optional<std::uint64_t> number(std::string_view key, std::uint64_t least,
                                        std::uint64_t most) const;
    /// A date and time by RFC 3339.
    std::optional<WallMillis> moment(std::string_view key) const;

private:
    std::map<std::string, std::string, std::less<>> encoded_;  ///< valid, so they can be decoded
};

/// The number of entries that an answer may have, from the parameter `limit`.
std::size_t page_size(const Query& query);

}  // namespace pulsegate
