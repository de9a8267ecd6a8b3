#include "loadgen/kill/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>

#include "loadgen/net/address.h"
#include "loadgen/scenario/values.h"
#include "loadgen/units.h"

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
    "or the run could not be carried out; 64 a mistake in the options; 130 interrupted, without a\n"
    "verdict.";

/// The gateway that was built or installed with this program.
std::string gateway_beside_us() {
    std::error_code error;
    const auto here = std::filesystem::read_symlink("/proc/self/exe", error);
    return (here.parent_path() / "pulsegate").string();
}

constexpr std::uint16_t gateway_http_port = 8080;

template <class Number>
load::TakeValue take_count(Number& into, std::uint32_t least, std::uint32_t most) {
    return [&into, least, most](std::string_view value) {
        into = static_cast<Number>(load::parse_count_between(value, least, most));
    };
}

load::TakeValue take_text(std::string& into) {
    return [&into](std::string_view value) { into = value; };
}

double parse_message_rate(std::string_view value) {
    const double rate = load::parse_rate(value);
    if (rate < 0.1 || rate > 1e6) throw std::invalid_argument("write a rate from 0.1 to 1000000/s");
    return rate;
}

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
    add("--kills", "N", take_count(options.kills, 0, 100'000), "20",
        "how many times to kill the broker");
    add("--stops", "N", take_count(options.stops, 0, 100'000), "0",
        "how many times to stop it with SIGTERM, alternating with kills");
    add("--seconds", "N", take_count(options.seconds, 1, 1'000'000), "60",
        "how long to publish, not counting the drain at the end");
    auto* gateway = add("--gateway", "FILE", take_text(options.gateway), "",
                        "the gateway to start; the default is the pulsegate beside this\n"
                        "program");
    auto* data = add("--data", "FOLDER", take_text(options.data), "",
                     "its data folder; the default is a folder that is removed at\n"
                     "the end");
    auto* cluster = add("--cluster", "URL", take_text(options.cluster), "",
                        "redis://HOST:PORT: start two gateways that store their data in\n"
                        "this Redis; one stands by, and takes over when the other one\n"
                        "is killed or stopped");
    cluster->excludes(data);
    app_.add_flag("--edges", options.edges,
                  "with --cluster: the gateway on standby serves clients as an\n"
                  "edge, on the next ports; clients connect to either, and either\n"
                  "is killed")
        ->needs(cluster);
    add("--host", "ADDRESS", take_text(host_), host_,
        "where the broker listens: a loopback address");
    add("--port", "PORT", take_count(port_, 1, 65'535), "1883", "the port that it listens on");
    add(
        "--http", "PORT",
        [this](auto value) {
            http_ = static_cast<std::uint16_t>(load::parse_count_between(value, 0, 65'535));
        },
        "",
        "the port of its HTTP API, for members of rooms and the presence\n"
        "feed; 0: none. The default is 8080 for the gateway and 0 for a\n"
        "COMMAND");
    add("--clock", "FILE", take_text(options.clock), "",
        "before each start, write to this file how many seconds the\n"
        "broker's clock is ahead, in the format of libfaketime");
    add(
        "--version", "VERSION", [this](auto value) { take_version(value); }, "both",
        "5, 3.1.1, or both: every other client");
    add("--publishers", "N", take_count(options.publishers, 1, 1'000), "6", "clients that publish");
    add("--receivers", "N", take_count(options.receivers, 1, 1'000), "12",
        "clients that subscribe");
    add(
        "--rate", "RATE", [this](auto value) { options_.rate = parse_message_rate(value); },
        "1500/s", "messages per second from all publishers together");
    add("--slowness", "N", take_count(options.slowness, 1, 100), "1",
        "for a broker with a sanitizer: how many times longer it may take\n"
        "to store and report events");
    add(
        "--without", "KIND[,KIND...]", [this](auto value) { take_without(value); }, "",
        "kinds of traffic to leave out: qos1,qos2,mixed,inbox,rooms,\n"
        "shared,delayed,retained,wills,presence");
    add(
        "--seed", "N", [this](auto value) { options_.seed = load::parse_count(value); }, "",
        "seed of all random choices");
    add("--json", "FILE", take_text(options.json), "",
        "write the results to this file as well; - is standard output");
    add("--log", "FILE", take_text(options.log), options.log,
        "append what the broker prints to this file");
    auto* command = app_.add_option("COMMAND", options.command,
                                    "command that starts another broker; write it after --");
    command->type_name("")->excludes(gateway)->excludes(data)->excludes(cluster);
}

CLI::Option* CommandLine::add(const char* name, const char* type, const load::TakeValue& take,
                              const std::string& standard, const char* help) {
    return load::add_option(app_, name, type, take, standard, help, "Options");
}

void CommandLine::take_version(std::string_view value) {
    if (value != "both" && value != "5" && value != "3.1.1")
        throw std::invalid_argument("write 5, 3.1.1 or both");
    options_.v3_1_1 = value != "5";
    options_.v5_0 = value != "3.1.1";
}

void CommandLine::take_without(std::string_view kinds) {
    for (std::string_view rest = kinds; !rest.empty();) {
        const auto word = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
        if (word == "presence") {
            options_.presence = false;
            continue;
        }
        const auto kind = kind_of(word);
        if (!kind)
            throw std::invalid_argument(
                "write some of qos1,qos2,mixed,inbox,rooms,shared,delayed,retained,wills,presence");
        options_.kinds.erase(*kind);
    }
}

void CommandLine::find_nodes() {
    for (std::uint16_t place = 0; place < (options_.edges ? 2 : 1); ++place) {
        const auto port = static_cast<std::uint16_t>(port_ + place);
        const auto address = load::resolve(host_, port).at(0);
        if (!address.loopback())
            throw std::runtime_error(fmt::format(
                "--host '{}': write a loopback address: the broker is started here", host_));
        options_.nodes.push_back({.address = address, .host = address.text(), .port = port});
    }
}

Options CommandLine::options() {
    const bool starts_gateway = options_.command.empty();
    options_.http = http_.value_or(starts_gateway ? gateway_http_port : 0);
    if (options_.edges && options_.http == 0)
        throw std::runtime_error(
            "--edges: name the port of the HTTP API with --http PORT; it says "
            "which node owns the data");
    find_nodes();
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
