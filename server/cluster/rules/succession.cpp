#include "server/cluster/rules/succession.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/base/hash.h"

namespace pulsegate {

std::size_t place_in_succession(unsigned partition, std::string_view self,
                                const std::vector<std::string>& living) {
    const auto rank = [&](std::string_view name) {
        return std::pair(stable_hash(fmt::format("{} {}", partition, name)), name);
    };
    return static_cast<std::size_t>(
        std::count_if(living.begin(), living.end(),
                      [&, own = rank(self)](const auto& name) { return rank(name) > own; }));
}

}  // namespace pulsegate
