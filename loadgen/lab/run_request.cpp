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
        if (setting.key == "clients" && setting.group.empty()) return false;
    return true;
}

}  // namespace

std::string lower_clients(RunRequest& request, const MachineLimits& limits) {
    if (!starts_default_clients(request)) return {};
    const auto written = parse_scenario(request.text, request.overrides, request.scale).clients();
    const auto fitting = usual_clients(written, limits);
    if (fitting >= written) return {};
    request.overrides.push_back(read_override(fmt::format("clients={}", fitting)));
    return fmt::format("{} clients instead of {}: the file limit is {}; 'ulimit -n {}' raises it",
                       show_count(fitting), show_count(written), limits.files, written + 1000);
}

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
    const auto note = lower_clients(request, limits);
    PreparedRun run{std::move(request), {}, {}};
    run.scenario = parse_scenario(run.request.text, run.request.overrides, run.request.scale);
    settle_transports(run.scenario, run.request.target);

    auto& options = run.request.layout;
    for (const auto& server : run.request.target.servers)
        options.loopback = find_server(server) && options.loopback;
    run.layout = lay_out(run.scenario, run.request.target, options, limits);
    if (!note.empty()) run.layout.notes.insert(run.layout.notes.begin(), note);
    return run;
}

}  // namespace pulsegate::load
