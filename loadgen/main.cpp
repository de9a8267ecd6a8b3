#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <variant>

#include "loadgen/lab/commands.h"
#include "loadgen/net/interruption.h"

int main(int argc, char** argv) {
    namespace load = pulsegate::load;
    constexpr int wrong_usage = 64;  // EX_USAGE; not the status of a broken promise
    int status_of_error = wrong_usage;
    try {
        const auto command = load::parse_command_line(argc, argv);
        status_of_error = EXIT_FAILURE;
        return std::visit([](const auto& chosen) { return load::run(chosen); }, command);
    } catch (const load::Interrupted& interrupted) {
        fmt::print(stderr, "pulsegate-loadgen: {}\n", interrupted.what());
        return load::Interruption::exit_status;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate-loadgen: {}\n", error.what());
        return status_of_error;
    }
}
