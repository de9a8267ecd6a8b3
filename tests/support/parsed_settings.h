#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "server/settings/config.h"

namespace pulsegate {

/// The settings of a command line, with these variables: `PULSEGATE_SHARDS=2`.
inline Config parsed(std::vector<std::string> arguments,
                     const std::vector<std::string>& variables = {}) {
    std::vector<const char*> argv{"pulsegate"};
    for (const auto& argument : arguments) argv.push_back(argument.c_str());
    std::vector<const char*> environment;
    environment.reserve(variables.size() + 1);
    for (const auto& variable : variables) environment.push_back(variable.c_str());
    environment.push_back(nullptr);
    return parse_config(static_cast<int>(argv.size()), argv.data(), environment.data());
}

/// What is said about arguments that can't be used; empty if they can.
inline std::string complaint(std::vector<std::string> arguments,
                             const std::vector<std::string>& variables = {}) {
    try {
        parsed(std::move(arguments), variables);
        return {};
    } catch (const ConfigError& error) {
        return error.what();
    }
}

/// A config file for the time of a test.
class SettingsFile {
public:
    explicit SettingsFile(const std::string& text)
        : path_("/tmp/pulsegate-config-test-" + std::to_string(::getpid())) {
        std::ofstream(path_) << text;
    }
    ~SettingsFile() { std::remove(path_.c_str()); }

    const std::string& path() const { return path_; }
    std::vector<std::string> arguments() const { return {"--config", path_}; }

private:
    std::string path_;
};

}  // namespace pulsegate
