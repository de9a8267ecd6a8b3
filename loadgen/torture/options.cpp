#include "loadgen/torture/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <random>
#include <stdexcept>

namespace pulsegate::torture {

namespace {

constexpr const char* description =
    "Finds out what an MQTT broker loses when it is killed or stopped: starts it, sends numbered\n"
    "messages through it, ends it with SIGKILL or SIGTERM at random moments, starts it again, and\n"
    "compares what it acknowledged with what was received.";

constexpr const char* examples =
    "Examples:\n"
    "  pulsegate torture --kills 200 --stops 200 --seconds 1200 --http 8080 --\n"
    "                    ./server/run --data D\n"
    "  pulsegate torture --port 1884 --without delayed,inbox,presence --\n"
    "                    mosquitto -c mosquitto.conf\n"
    "\n"
    "Exit status: 0 nothing was lost, wrongly repeated, out of order or early; 1 something was,\n"
    "or the broker did not start; 2 wrong usage; 130 interrupted.";

/// What is given as text.
struct Texts {
    std::string host = "127.0.0.1";
    std::uint16_t port = 1883;
    std::uint16_t http = 0;
    std::string version = "both";
    std::vector<std::string> without;
};

void bind(CLI::App& app, Options& options, Texts& texts) {
    app.add_option("--kills", options.kills, "how often to kill the broker")
        ->check(CLI::Range(0u, 100'000u).description(""));
    app.add_option("--stops", options.stops,
                   "how often to stop it with SIGTERM, in turn with kills")
        ->check(CLI::Range(0u, 100'000u).description(""));
    app.add_option("--seconds", options.seconds, "how long to publish; draining comes on top")
        ->check(CLI::Range(1u, 1'000'000u).description(""));
    app.add_option("--host", texts.host, "where the broker listens: a loopback address");
    app.add_option("--port", texts.port, "the port that it listens on")
        ->check(CLI::Range(1, 65535).description(""));
    app.add_option("--http", texts.http,
                   "the port of its HTTP API, for members of rooms and the presence feed; 0: none")
        ->check(CLI::Range(0, 65535).description(""));
    app.add_option("--clock", options.clock,
                   "write to this file before each start how many seconds the broker's clock is\n"
                   "to be ahead, as libfaketime reads it")
        ->type_name("FILE");
    app.add_option("--version", texts.version, "5, 3.1.1, or both: every other client")
        ->check(CLI::IsMember({"5", "3.1.1", "both"}).description(""));
    app.add_option("--publishers", options.publishers, "clients that publish")
        ->check(CLI::Range(1, 1000).description(""));
    app.add_option("--receivers", options.receivers, "clients that subscribe")
        ->check(CLI::Range(1, 1000).description(""));
    app.add_option("--rate", options.rate, "messages a second, all publishers together")
        ->check(CLI::Range(0.1, 1e6).description(""));
    app.add_option("--without", texts.without,
                   "kinds of traffic to leave out, separated by commas: qos1,qos2,mixed,\n"
                   "inbox,rooms,shared,delayed,retained,wills,presence")
        ->delimiter(',')
        ->allow_extra_args(false);  // or the command would be among them
    app.add_option("--seed", options.seed, "of all that is left to chance");
    app.add_option("--json", options.json, "write the results to this file as well");
    app.add_option("--log", options.log, "append what the broker prints to this file");
    app.add_option("COMMAND", options.command, "starts the broker; comes after --")->required();
    for (auto* option : app.get_options()) option->type_name("")->capture_default_str();
}

void apply(const Texts& texts, Options& options) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(texts.host, error);
    if (error || !address.is_loopback())
        throw std::runtime_error(fmt::format(
            "--host '{}': write a loopback address: the broker is started here", texts.host));
    options.broker = {address, texts.port};
    options.v3_1_1 = texts.version != "5";
    options.v5_0 = texts.version != "3.1.1";
    options.http = {address, texts.http};
    for (const auto& text : texts.without) {
        if (text == "presence") {
            options.presence = false;
            continue;
        }
        const auto kind = kind_of(text);
        if (!kind)
            throw std::runtime_error(fmt::format(
                "--without '{}': write some of qos1,qos2,mixed,inbox,rooms,shared,delayed,retained,"
                "wills,presence",
                text));
        options.kinds.erase(*kind);
    }
    if (texts.http == 0) options.kinds.erase(Kind::room);
    if (options.kinds.empty()) throw std::runtime_error("--without: nothing is left");
}

}  // namespace

std::variant<Options, Answer> parse_options(int argc, const char* const* argv) {
    CLI::App app(description, "pulsegate torture");
    app.get_formatter()->column_width(24);
    app.footer(examples);

    Options options;
    options.seed = std::random_device{}();
    Texts texts;
    bind(app, options, texts);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        return Answer{app.help()};
    } catch (const CLI::ParseError& error) {
        throw std::runtime_error(fmt::format("{}; --help lists the options", error.what()));
    }
    apply(texts, options);
    return options;
}

}  // namespace pulsegate::torture
