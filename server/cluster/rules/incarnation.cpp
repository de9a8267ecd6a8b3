#include "server/cluster/rules/incarnation.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/base/hash.h"

namespace pulsegate {

namespace {
constexpr std::size_t suffix = 17;  // pg1.lua knows it, too
}

std::string new_incarnation(std::string_view node_name) {
    return fmt::format("{}#{:016x}", node_name, random_key().low);
}

std::string_view node_name_of(std::string_view incarnation) {
    return incarnation.substr(0, incarnation.size() - std::min(suffix, incarnation.size()));
}

bool is_node_name(std::string_view name) {
    static constexpr std::string_view others = "._-";
    return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               others.find(c) != std::string_view::npos;
    });
}

}  // namespace pulsegate
