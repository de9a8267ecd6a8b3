#include "loadgen/lab/run_request.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "loadgen/net/address.h"
#include "loadgen/net/descriptor.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// Empty if the server accepted.
std::string trouble_of_connecting(const SocketAddress& address) {
    const Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{2, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (::connect(socket.get(), address.get(), address.size()) == 0) return {};
    return std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
}

bool starts_default_clients(const RunRequest& request) {
    const LayoutOptions& layout = request.layout;
    if (!request.text.built_in || request.scale != 1 || layout.workers || layout.elsewhere)
        return false;
    for (const Setting& setting : request.overrides)
        if (setting.key == "clients") return false;
    return true;
}

/// Without --clients there are as many as the machine allows.
void lower_clients(PreparedRun& run, const MachineLimits& limits) {
    const auto written = run.scenario.clients();
    const auto fitting = usual_clients(written, limits);
    if (fitting >= written || !starts_default_clients(run.request)) return;
    run.request.overrides.push_back(read_override(fmt::format("clients={}", fitting)));
    run.scenario = parse_scenario(run.request.text, run.request.overrides, run.request.scale);
    run.layout.notes.push_back(
        fmt::format("{} clients instead of {}: the file limit is {}; 'ulimit -n {}' raises it",
                    show_count(fitting), show_count(written), limits.files, written + 1000));
}

}  // namespace

bool find_server(const ServerAddress& server) {
    const auto addresses = resolve(server.host, server.port);
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    std::string trouble;
    do {
        for (const auto& address : addresses)
            if (trouble = trouble_of_connecting(address); trouble.empty())
                return address.loopback() && address.family() == AF_INET;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    } while (std::chrono::steady_clock::now() < patience);
    throw std::runtime_error(
        fmt::format("--connect: no server at {}:{}: {}; start one (server/run) or name another",
                    server.host, server.port, trouble));
}

PreparedRun prepare(RunRequest request, const MachineLimits& limits) {
    PreparedRun run{std::move(request), {}, {}};
    run.scenario = parse_scenario(run.request.text, run.request.overrides, run.request.scale);
    lower_clients(run, limits);
    settle_transports(run.scenario, run.request.target);

    auto& options = run.request.layout;
    for (const auto& server : run.request.target.servers)
        options.loopback = find_server(server) && options.loopback;
    auto notes = std::move(run.layout.notes);
    run.layout = lay_out(run.scenario, run.request.target, options, limits);
    run.layout.notes.insert(run.layout.notes.begin(), notes.begin(), notes.end());
    return run;
}

}  // namespace pulsegate::load
