#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pulsegate {

/// Reads the command line and calls `run`. Prints the help, or the fault and the name of the
/// command. Returns the exit status: 0, or 1 for a wrong command line or an exception from `run`.
int run_command(CLI::App& app, int argc, const char* const* argv, const std::function<void()>& run);

}  // namespace pulsegate
