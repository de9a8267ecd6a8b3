#pragma once

#include <string>
#include <string_view>

namespace pulsegate::load {

/// The secret that workers on other machines must show. Throws `std::runtime_error` with the
/// remedy if the file can't be read or the token is short.
std::string read_token(const std::string& file);

/// Takes as long for a wrong token as for the right one.
bool same_token(std::string_view shown, std::string_view right);

}  // namespace pulsegate::load
