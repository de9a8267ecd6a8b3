#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "loadgen/kill/options.h"
#include "loadgen/scenario/option.h"

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
    CLI::Option* add(const char* name, const char* type, const load::TakeValue& take,
                     const std::string& standard, const char* help);
    void take_version(std::string_view value);
    void take_without(std::string_view kinds);
    void find_nodes();

    CLI::App& app_;
    Options options_;
    std::string host_ = "127.0.0.1";
    std::uint16_t port_ = 1883;
    std::optional<std::uint16_t> http_;
};

}  // namespace pulsegate::kill
