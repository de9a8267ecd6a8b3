#pragma once

#include <span>

namespace pulsegate::load {

/// An option that stands for a --set of what is set most often.
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
