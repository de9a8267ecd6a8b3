#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pulsegate::load {

/// A command line for reports, which are passed on: `***` stands for the values of options whose
/// names speak of a password, a secret or a token.
std::string command_text(std::span<const std::string_view> words);

}  // namespace pulsegate::load
