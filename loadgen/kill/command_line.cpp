#include "loadgen/kill/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>

namespace pulsegate::kill {

namespace {

constexpr const char* summary = "find out what a broker loses when it is killed or stopped";

constexpr const char* explanation =
    "Starts a broker, sends numbered messages through it, ends it with SIGKILL or SIGTERM at "
    "random\n"
    "moments, starts it again, and compares what it acknowledged with what was received.\n"
    "\n"
    "Examples:\n"
    "  pulsegate-loadgen kill --kills 200 --stops 200 --seconds 1200 --data D\n"
    "      the pulsegate beside this program\n"
    "  pulsegate-loadgen kill --port 1884 --without delayed,inbox,presence --\n"
    "                         mosquitto -c mosquitto.conf\n"
    "      another broker\n"
    "\n"
    "Exit status: 0 nothing was lost, wrongly repeated, out of order or early; 1 something was,\n"
    "or the run could not be carried out; 130 interrupted, without a verdict.";

/// The gateway that was built or installed with this program.
std::string gateway_beside_us() {
    std::error_code error;
    const auto here = std::filesystem::read_symlink("/proc/self/exe", error);
    return (here.parent_path() / "pulsegate").string();
}

constexpr std::uint16_t gateway_http_port = 8080;

}  // namespace

CommandLine::CommandLine(CLI::App& program) : app_(*program.add_subcommand("kill", summary)) {
    options_.seed = std::random_device{}();
    options_.gateway = gateway_beside_us();
    app_.footer(explanation);
    bind();
}

bool CommandLine::parsed() const { return app_.parsed(); }

void CommandLine::bind() {
    auto& options = options_;
    app_.add_option("--kills", options.kills, "how many times to kill the broker")
        ->check(CLI::Range(0u, 100'000u).description(""));
    app_.add_option("--stops", options.stops,
                    "how many times to stop it with SIGTERM, alternating with kills")
        ->check(CLI::Range(0u, 100'000u).description(""));
    app_.add_option("--seconds", options.seconds,
                    "how long to publish, not counting the drain at the end")
        ->check(CLI::Range(1u, 1'000'000u).description(""));
    auto* gateway =
        app_.add_option("--gateway", options.gateway,
                        "the gateway to start; the default is the pulsegate beside this program");
    auto* data =
        app_.add_option("--data", options.data,
                        "its data folder; the default is a folder that is removed at the end");
    auto* cluster = app_.add_option("--cluster", options.cluster,
                                    "redis://HOST:PORT: start two gateways that store their data "
                                    "in this Redis; one stands by,\n"
                                    "and takes over when the other one is killed or stopped");
    cluster->excludes(data);
    auto* edges = app_.add_flag("--edges", options.edges,
                                "with --cluster: the gateway on standby serves clients as an edge, "
                                "on the\n"
                                "next ports; clients connect to either, and either is killed")
                      ->needs(cluster);
    app_.add_option("--host", host_, "where the broker listens: a loopback address");
    app_.add_option("--port", port_, "the port that it listens on")
        ->check(CLI::Range(1, 65535).description(""));
    auto* http =
        app_.add_option("--http", http_,
                        "the port of its HTTP API, for members of rooms and the presence feed; 0:\n"
                        "none. The default is 8080 for the gateway and 0 for a COMMAND");
    http->check(CLI::Range(0, 65535).description(""));
    app_.add_option("--clock", options.clock,
                    "before each start, write to this file how many seconds the broker's clock\n"
                    "is ahead, in the format of libfaketime");
    app_.add_option("--version", version_, "5, 3.1.1, or both: every other client")
        ->check(CLI::IsMember({"5", "3.1.1", "both"}).description(""));
    app_.add_option("--publishers", options.publishers, "clients that publish")
        ->check(CLI::Range(1, 1000).description(""));
    app_.add_option("--receivers", options.receivers, "clients that subscribe")
        ->check(CLI::Range(1, 1000).description(""));
    app_.add_option("--rate", options.rate, "messages per second from all publishers together")
        ->check(CLI::Range(0.1, 1e6).description(""));
    app_.add_option("--slowness", options.slowness,
                    "for a broker with a sanitizer: how many times longer it may take to store\n"
                    "and report events")
        ->check(CLI::Range(1, 100).description(""));
    auto* without =
        app_.add_option("--without", without_,
                        "kinds of traffic to leave out, separated by commas: qos1,qos2,mixed,\n"
                        "inbox,rooms,shared,delayed,retained,wills,presence")
            ->delimiter(',')
            ->allow_extra_args(false);  // otherwise the option would take the command as well
    auto* seed = app_.add_option("--seed", options.seed, "seed of all random choices");
    app_.add_option("--json", options.json,
                    "write the results to this file as well; - is standard output");
    app_.add_option("--log", options.log, "append what the broker prints to this file");
    auto* command = app_.add_option("COMMAND", options.command,
                                    "command that starts another broker; write it after --");
    command->excludes(gateway)->excludes(data)->excludes(cluster);
    for (auto* option : app_.get_options()) option->type_name("")->capture_default_str();
    for (auto* option : {http, gateway, without, seed, command, edges}) option->default_str("");
}

void CommandLine::find_nodes() try {
    for (std::uint16_t place = 0; place < (options_.edges ? 2 : 1); ++place) {
        const auto port = static_cast<std::uint16_t>(port_ + place);
        const auto address = load::resolve(host_, port).at(0);
        if (!address.loopback()) throw std::runtime_error("is elsewhere");
        options_.nodes.push_back({.address = address, .host = address.text(), .port = port});
    }
} catch (const std::runtime_error&) {
    throw std::runtime_error(
        fmt::format("--host '{}': write a loopback address: the broker is started here", host_));
}

Options CommandLine::options() {
    const bool starts_gateway = options_.command.empty();
    options_.http = http_.value_or(starts_gateway ? gateway_http_port : 0);
    if (options_.edges && options_.http == 0)
        throw std::runtime_error(
            "--edges: name the port of the HTTP API with --http PORT; it says "
            "which node owns the data");
    find_nodes();
    options_.v3_1_1 = version_ != "5";
    options_.v5_0 = version_ != "3.1.1";
    for (const auto& text : without_) {
        if (text == "presence") {
            options_.presence = false;
            continue;
        }
        const auto kind = kind_of(text);
        if (!kind)
            throw std::runtime_error(fmt::format(
                "--without '{}': write some of qos1,qos2,mixed,inbox,rooms,shared,delayed,retained,"
                "wills,presence",
                text));
        options_.kinds.erase(*kind);
    }
    if (options_.http == 0) options_.kinds.erase(Kind::room);
    if (options_.kinds.empty()) throw std::runtime_error("--without: nothing is left");
    if (starts_gateway && !std::filesystem::is_regular_file(options_.gateway))
        throw std::runtime_error(fmt::format(
            "--gateway '{}': there is no such program; build it with .ci/build build pulsegate, "
            "or write a command that starts a broker after --",
            options_.gateway));
    return options_;
}

}  // namespace pulsegate::kill
