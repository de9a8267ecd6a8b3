#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/lab/layout.h"
#include "loadgen/observe/observer.h"
#include "loadgen/scenario/parser.h"
#include "loadgen/scenario/target.h"

namespace pulsegate::load {

/// What somebody wants to be run: scenario, server, machine.
struct RunRequest {
    ScenarioText text;
    std::vector<Setting> overrides;
    double scale = 1;
    Target target;
    LayoutOptions layout;
    std::uint32_t server_pid = 0;
    std::string metrics;  ///< URL
    std::string command;  ///< as it was typed
};

/// Without --clients a built-in scenario starts as many as the machine allows: sets them, if they
/// are fewer than the scenario's, and returns a note for the user.
std::string lower_clients(RunRequest& request, const MachineLimits& limits);

/// The same, checked and complete.
struct PreparedRun {
    RunRequest request;
    Scenario scenario;
    Layout layout;
};

/// Throws `std::runtime_error`, one line with the remedy: the scenario, the server and the limits
/// of the machine are checked before the first client connects.
PreparedRun prepare(RunRequest request, const MachineLimits& limits);

/// The addresses that a server may have; throws if nobody accepts a connection there within a few
/// seconds: one error says as much as 15,000. True if all are in 127.0.0.0/8.
bool find_server(const ServerAddress& server);

}  // namespace pulsegate::load
