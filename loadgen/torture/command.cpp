#include "loadgen/torture/command.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <variant>

#include "loadgen/torture/options.h"
#include "loadgen/torture/report.h"
#include "loadgen/torture/torture.h"

namespace pulsegate::torture {

namespace {

constexpr int wrong_usage = 2;
constexpr int interrupted = 128 + SIGINT;

int run(const Options& options) {
    std::ofstream json;  // opened before the run, so that a wrong name is told at once
    if (!options.json.empty()) {
        json.open(options.json);
        if (!json) {
            fmt::print(stderr, "pulsegate torture: --json '{}': can't be written\n", options.json);
            return wrong_usage;
        }
    }
    fmt::print(stderr, "torture: seed {}\n", options.seed);
    const Results results = Torture(options).run();
    fmt::print("{}", table(options, results));
    if (json.is_open() && !(json << as_json(options, results) << std::flush))
        throw std::runtime_error("the results could not be written: is the disk full?");
    return passed(results) ? 0 : 1;
}

}  // namespace

int torture_command(int argc, const char* const* argv) {
    std::variant<Options, Answer> parsed;
    try {
        parsed = parse_options(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate torture: {}\n", error.what());
        return wrong_usage;
    }
    if (const auto* answer = std::get_if<Answer>(&parsed)) {
        fmt::print("{}", answer->text);
        return 0;
    }
    try {
        return run(std::get<Options>(parsed));
    } catch (const Interrupted&) {
        fmt::print(stderr, "pulsegate torture: interrupted; nothing is judged\n");
        return interrupted;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate torture: {}\n", error.what());
        return 1;
    }
}

}  // namespace pulsegate::torture
