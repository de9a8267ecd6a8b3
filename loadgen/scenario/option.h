#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pulsegate::load {

/// Takes the value of an option. Throws `std::invalid_argument` with the remedy.
using TakeValue = std::function<void(std::string_view)>;

/// Adds an option to the command line. Each value of an option that is repeated is taken by itself.
/// A value that is not taken throws `std::runtime_error`, one line that names the option and the
/// remedy. `standard` is shown as the default.
CLI::Option* add_option(CLI::App& app, const char* name, const char* type, const TakeValue& take,
                        const std::string& standard, const char* help, const char* group);

}  // namespace pulsegate::load
