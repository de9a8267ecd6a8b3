#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/lab/layout.h"
#include "loadgen/observe/observer.h"
#include "loadgen/scenario/parser.h"
#include "loadgen/scenario/target.h"

namespace pulsegate::load {

/// A requested run: scenario, server, machine.
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

/// Without --clients, a built-in scenario starts only as many clients as the machine allows. If
/// these are fewer than the scenario's, sets them and returns a note for the user.
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

/// Resolves the addresses of a server. Throws if no connection is accepted there within a few
/// seconds, because one error is as informative as 15,000. Returns true if all addresses are in
/// 127.0.0.0/8.
bool find_server(const ServerAddress& server);

}  // namespace pulsegate::load
