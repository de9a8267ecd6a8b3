#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pulsegate::load {

/// A command line for reports, which people share. `***` replaces the values of options with a
/// password, a secret or a token in their names.
std::string command_text(std::span<const std::string_view> words);

}  // namespace pulsegate::load
