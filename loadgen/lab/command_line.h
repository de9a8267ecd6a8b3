#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "loadgen/kill/options.h"
#include "loadgen/lab/capacity.h"
#include "loadgen/lab/run_request.h"
#include "loadgen/lab/worker_listener.h"

namespace pulsegate::load {

/// Runs a scenario once, or several times to find the server's capacity.
struct RunCommand {
    RunRequest request;
    std::string json;  ///< "-": standard output
    std::string html;
    std::optional<RemoteWorkers> remote;  ///< the token is not read yet
    std::string token_file;
    std::optional<CapacityRequest> capacity;  ///< `request` is the run
};

/// A worker, started by a coordinator.
struct WorkerCommand {
    int fd = -1;  ///< for a worker on this machine
    std::string host;
    std::uint16_t port = 0;
    std::string token_file;
};

struct CompareCommand {
    std::vector<std::string> files{};
    std::string html{};
    std::size_t repeats = 1;  ///< number of files of each run
    std::optional<double>
        most_worse{};  ///< the fraction by which a run may be worse than the first
};

struct PaperCommand {
    double clients = 0;
    double clients_per_node = 100'000;
    std::vector<std::string> files;
};

/// Finds out what a broker loses when it is killed.
struct KillCommand {
    kill::Options options;
};

/// The text to print for `--help`, `--scenarios` and the like.
struct Printout {
    std::string text;
};

using Command =
    std::variant<Printout, RunCommand, WorkerCommand, CompareCommand, PaperCommand, KillCommand>;

/// Throws `std::runtime_error`, one line that names the option and the remedy.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace pulsegate::load
