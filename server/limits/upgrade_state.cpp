#include "server/limits/upgrade_state.h"

#include <fmt/format.h>

namespace pulsegate {

std::string text_of_left(const std::map<std::string, std::uint64_t>& left) {
    std::uint64_t sum = 0;
    std::string reasons;
    for (const auto& [reason, clients] : left) {
        sum += clients;
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", clients, reason);
    }
    return sum == 0 ? "none left behind" : fmt::format("{} left behind ({})", sum, reasons);
}

}  // namespace pulsegate
