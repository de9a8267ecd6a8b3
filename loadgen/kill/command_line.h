#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/kill/options.h"

namespace CLI {
class App;
}

namespace pulsegate::kill {

/// The subcommand `kill` and its options.
class CommandLine {
public:
    explicit CommandLine(CLI::App& program);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;

    /// Was this subcommand given?
    bool parsed() const;

    /// Throws std::runtime_error with one line that says what is wrong.
    Options options();

private:
    void bind();
    void find_nodes();

    CLI::App& app_;
    Options options_;
    std::string host_ = "127.0.0.1";
    std::uint16_t port_ = 1883;
    std::optional<std::uint16_t> http_;
    std::string version_ = "both";
    std::vector<std::string> without_;
};

}  // namespace pulsegate::kill
