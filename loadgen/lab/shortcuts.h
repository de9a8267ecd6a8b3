#pragma once

#include <span>

namespace pulsegate::load {

/// A short option for a --set that is used often.
struct Shortcut {
    const char* option;
    const char* type;
    const char* key;
    const char* standard;  ///< of the scenario `keepalive`
    const char* help;
    const char* group;
};

std::span<const Shortcut> shortcuts();

}  // namespace pulsegate::load
