#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// The name that somebody meant who wrote an unknown one; "" if none is near.
std::string nearest_name(std::string_view written, const std::vector<std::string>& names);

}  // namespace pulsegate
