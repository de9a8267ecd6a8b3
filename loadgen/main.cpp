#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <variant>

#include "loadgen/fleet.h"
#include "loadgen/machine.h"
#include "loadgen/options.h"
#include "loadgen/plan.h"
#include "loadgen/progress.h"
#include "loadgen/report.h"
#include "loadgen/verdict.h"

using namespace pulsegate::load;
using boost::asio::ip::tcp;

namespace {

constexpr int interrupted_status = 128 + SIGINT;

/// The first address of the server that accepts a connection; waits a few seconds for a server that
/// is just starting. Throws std::runtime_error if there is none: one error says as much as 15,000.
tcp::endpoint find_server(asio::io_context& io, const Address& address) {
    boost::system::error_code error;
    const auto found = tcp::resolver(io).resolve(address.host, std::to_string(address.port), error);
    if (error)
        throw std::runtime_error(fmt::format("--connect: no address for {}: {}; check the name",
                                             address.host, error.message()));
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    do {
        for (const auto& entry : found) {
            tcp::socket probe(io);
            probe.connect(entry.endpoint(), error);
            if (!error) return entry.endpoint();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    } while (std::chrono::steady_clock::now() < patience);
    throw std::runtime_error(
        fmt::format("--connect: no server at {}:{}: {}; start one (server/run) or name another",
                    address.host, address.port, error.message()));
}

bool in_loopback_net(const tcp::endpoint& target) {
    return target.address().is_v4() && target.address().to_v4().is_loopback();
}

/// Opens the file before the run, so that a wrong name is reported at once.
std::ofstream open_json(const std::string& name) {
    std::ofstream file;
    if (name.empty() || name == "-") return file;
    file.open(name);
    if (!file)
        throw std::runtime_error(fmt::format(
            "--json '{}': can't be written; name a file in a folder that exists", name));
    return file;
}

/// The first signal ends the run with its table, the second ends it now.
void end_on_signal(asio::signal_set& signals, Fleet& fleet) {
    signals.async_wait([&](boost::system::error_code error, int) {
        if (error) return;
        fleet.interrupt();
        signals.async_wait([](boost::system::error_code second_error, int) {
            if (!second_error) std::_Exit(interrupted_status);
        });
    });
}

int run(const Options& options) {
    asio::io_context io(1);
    const auto target = find_server(io, options.connect);
    const Plan plan = make_plan(options, in_loopback_net(target), survey_machine());
    auto file = open_json(options.json);

    // JSON on standard output must be the only output there.
    FILE* const report = options.json == "-" ? stderr : stdout;
    fmt::print(report, "{}", announce(plan));
    std::fflush(report);

    Fleet fleet(io, plan, target);
    asio::signal_set signals(io, SIGINT, SIGTERM);
    end_on_signal(signals, fleet);
    {
        Progress progress(plan);
        fleet.run([&](const Fleet::Glance& glance) { progress.show(glance); });
    }

    const auto checks = check(plan, fleet.results());
    fmt::print(report, "{}", table(plan, fleet.results(), checks));
    if (options.json == "-") fmt::print("{}", as_json(plan, fleet.results(), checks));
    if (file.is_open() && !(file << as_json(plan, fleet.results(), checks) << std::flush))
        throw std::runtime_error(fmt::format(
            "--json '{}': could not be written completely; is the disk full?", options.json));

    if (fleet.results().interrupted) return interrupted_status;
    return passed(checks) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const auto parsed = parse_options(argc, argv);
        if (const auto* answer = std::get_if<Answer>(&parsed)) {
            fmt::print("{}", answer->text);
            return EXIT_SUCCESS;
        }
        return run(std::get<Options>(parsed));
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate-loadgen: {}\n", error.what());
        return EXIT_FAILURE;
    }
}
