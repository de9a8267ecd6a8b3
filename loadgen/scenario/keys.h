#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadgen/scenario/draft.h"

namespace pulsegate::load {

/// A key of scenario files. `apply` throws `std::invalid_argument` with the remedy.
struct ScenarioKey {
    std::string_view name;
    std::string_view values;    ///< the format of values
    std::string_view standard;  ///< the default, for people
    std::string_view meaning;
    void (*apply)(ScenarioDraft& draft, std::string_view value) = nullptr;
};

struct GroupKey {
    std::string_view name;
    std::string_view values;
    std::string_view standard;
    std::string_view meaning;
    void (*apply)(GroupDraft& draft, std::string_view value) = nullptr;
};

const std::vector<ScenarioKey>& scenario_keys();
const std::vector<GroupKey>& group_keys();

/// The reference of all keys in Markdown, which the README of this folder contains.
std::string key_reference();

}  // namespace pulsegate::load
