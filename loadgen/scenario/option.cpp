#include "loadgen/scenario/option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <vector>

namespace pulsegate::load {

CLI::Option* add_option(CLI::App& app, const char* name, const char* type, const TakeValue& take,
                        const std::string& standard, const char* help, const char* group) {
    const auto set = [name, take](const std::vector<std::string>& values) {
        for (const auto& value : values) try {
                take(value);
            } catch (const std::invalid_argument& remedy) {
                throw std::runtime_error(fmt::format("{} '{}': {}", name, value, remedy.what()));
            }
    };
    auto* option = app.add_option_function<std::vector<std::string>>(name, set, help);
    option->type_name(type)->default_str(standard)->group(group);
    return option->allow_extra_args(false);
}

}  // namespace pulsegate::load
