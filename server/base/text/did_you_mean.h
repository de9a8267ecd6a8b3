#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// The known name that is nearest to an unknown one; "" if none is near.
std::string nearest_name(std::string_view written, const std::vector<std::string>& names);

}  // namespace pulsegate
