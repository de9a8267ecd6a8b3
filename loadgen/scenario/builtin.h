#pragma once

#include <span>
#include <string_view>

namespace pulsegate::load {

/// A scenario that is part of the program: a file of `scenario/builtin/`.
struct BuiltinScenario {
    std::string_view name;
    std::string_view text;
};

std::span<const BuiltinScenario> builtin_scenarios();

}  // namespace pulsegate::load
