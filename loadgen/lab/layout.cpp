#include "loadgen/lab/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "loadgen/scenario/values.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// Descriptors for all but clients: the poller, timers, the control connection, and a reserve.
constexpr std::uint64_t reserved_files = 50;

// A source address has about 28,000 ports towards one server, and some of them may still be in
// TIME_WAIT from the run before.
constexpr std::uint32_t clients_per_source = 20'000;
constexpr std::uint32_t usual_sources = 16;

/// The packets per second that one worker handles without falling behind.
constexpr double packets_per_worker = 50'000;

constexpr std::uint32_t most_workers = 1'000;

/// Memory of a client: its state, and the buffers of TLS.
constexpr std::uint64_t bytes_per_client = 3'000;
constexpr std::uint64_t bytes_per_tls_client = 45'000;

std::uint64_t room_for_clients(const MachineLimits& limits) {
    return limits.files > reserved_files ? limits.files - reserved_files : 0;
}

std::uint64_t divided(std::uint64_t number, std::uint64_t by) {
    return by == 0 ? number : (number + by - 1) / by;
}

double connections_per_client(const Group& group, const Scenario& scenario) {
    if (group.hostile == Hostile::duel) return 2;
    const bool leaves_half_open = group.leave == Leave::vanish && group.online.most > Duration{};
    if (leaves_half_open) return 2;
    // The old connections stay open until the server closes them.
    const double changing = group.network_changes / std::max(1.0, double(group.clients)) *
                            seconds(scenario.limit_of(group) + Scenario::server_tick);
    return 1 + std::min(changing, 4.0);
}

std::uint64_t memory_of(const Scenario& scenario) {
    std::uint64_t bytes = 0;
    for (const Group& group : scenario.groups) {
        const bool tls =
            group.transport == TransportKind::tls || group.transport == TransportKind::wss;
        bytes += group.clients * (tls ? bytes_per_tls_client : bytes_per_client);
    }
    return bytes;
}

std::uint32_t needed_workers(const Scenario& scenario, const MachineLimits& limits) {
    const auto by_files = divided(connections_of(scenario), room_for_clients(limits));
    const auto by_packets = std::min<std::uint64_t>(
        limits.cores,
        static_cast<std::uint64_t>(std::ceil(scenario.packets() / packets_per_worker)));
    return static_cast<std::uint32_t>(std::max<std::uint64_t>({1, by_files, by_packets}));
}

[[noreturn]] void refuse_files(const Scenario& scenario, std::uint32_t workers,
                               const MachineLimits& limits) {
    const auto share = divided(connections_of(scenario), workers);
    throw LimitError(fmt::format(
        "--clients {}: {} worker{} would open {} connections each, and the file limit of {} leaves "
        "room for {}; use --workers {}, or raise it with 'ulimit -n {}' (LimitNOFILE= in a systemd "
        "unit, nofile in /etc/security/limits.conf), for the server too",
        scenario.clients(), workers, workers == 1 ? "" : "s", share, limits.files,
        room_for_clients(limits),
        divided(connections_of(scenario), std::max<std::uint64_t>(1, room_for_clients(limits))),
        share + 1000));
}

void check_machine(const Scenario& scenario, const MachineLimits& limits) {
    if (room_for_clients(limits) < 2)
        throw LimitError(fmt::format(
            "the file limit of {} is too low; raise it with 'ulimit -n 20000'", limits.files));
    if (connections_of(scenario) > limits.all_files)
        throw LimitError(fmt::format(
            "--clients {}: this machine allows {} open files; raise that with 'sysctl "
            "fs.file-max={}', or use several machines (--coordinator-listen)",
            scenario.clients(), limits.all_files, connections_of(scenario) * 2 + 10'000));
    if (memory_of(scenario) > limits.memory)
        throw LimitError(fmt::format(
            "--clients {}: they take about {} MB, and {} MB are free; use fewer clients or several "
            "machines (--coordinator-listen)",
            scenario.clients(), memory_of(scenario) / 1'000'000, limits.memory / 1'000'000));
}

void choose_workers(Layout& layout, const Scenario& scenario, const LayoutOptions& options,
                    const MachineLimits& limits) {
    const auto needed = needed_workers(scenario, limits);
    layout.workers = options.workers.value_or(std::min(needed, scenario.clients()));
    if (layout.workers > most_workers)
        throw LimitError(
            fmt::format("--clients {}: with a file limit of {} this takes {} workers, and {} is "
                        "the most; raise "
                        "it with 'ulimit -n 100000'",
                        scenario.clients(), limits.files, layout.workers, most_workers));
    if (layout.workers > scenario.clients())
        throw LimitError(fmt::format("--workers {}: there are {} clients; use fewer workers",
                                     layout.workers, scenario.clients()));
    if (divided(connections_of(scenario), layout.workers) > room_for_clients(limits))
        refuse_files(scenario, layout.workers, limits);
}

/// Clients that connect to the busiest server.
std::uint32_t clients_per_server(const Scenario& scenario, const Target& target) {
    std::map<TransportKind, std::uint64_t> connections;
    for (const Group& group : scenario.groups)
        connections[group.transport] += static_cast<std::uint64_t>(
            std::ceil(group.clients * connections_per_client(group, scenario)));
    std::uint64_t most = 0;
    for (const auto& [transport, count] : connections)
        most = std::max(most, divided(count, target.servers_of(transport).size()));
    return static_cast<std::uint32_t>(most);
}

void choose_sources(Layout& layout, const Scenario& scenario, const Target& target,
                    const LayoutOptions& options, const MachineLimits& limits) {
    const auto clients = clients_per_server(scenario, target);
    if (!options.loopback) {
        const auto here = options.elsewhere ? divided(clients, layout.workers) : clients;
        if (here <= limits.ports) return;
        throw LimitError(fmt::format(
            "--clients {}: one source address has {} ports towards a server; widen them with "
            "'sysctl net.ipv4.ip_local_port_range=\"1024 65535\"', or use several machines "
            "(--coordinator-listen)",
            scenario.clients(), limits.ports));
    }
    const auto most = std::max(1u, std::min(limits.ports * 9 / 10, clients_per_source));
    const auto needed = static_cast<std::uint32_t>(divided(clients, most));
    layout.sources = options.sources.value_or(std::max(needed, usual_sources));
    layout.sources = std::min(layout.sources, scenario.clients());
    if (clients / layout.sources > limits.ports)
        throw LimitError(fmt::format(
            "--sources {}: a source address has {} ports; use at least {} addresses, or widen the "
            "ports with 'sysctl net.ipv4.ip_local_port_range=\"1024 65535\"'",
            layout.sources, limits.ports, needed));
}

void choose_in_progress(Layout& layout, const LayoutOptions& options, const MachineLimits& limits) {
    auto in_progress = options.in_progress;
    if (options.loopback && in_progress > limits.backlog) {
        in_progress = limits.backlog;
        layout.notes.push_back(
            fmt::format("{} logins in progress instead of {}: net.core.somaxconn lets no more wait "
                        "at a listener",
                        in_progress, options.in_progress));
    }
    layout.in_progress = std::max(1u, in_progress / layout.workers);
}

void note_longer_run(Layout& layout, const Scenario& scenario) {
    if (scenario.settled_after() <= scenario.duration) return;
    layout.notes.push_back(
        fmt::format("the duration of {} is too short to judge silent clients, storms or hostile "
                    "clients: the run takes {} or longer",
                    show(scenario.duration), show(scenario.settled_after())));
}

}  // namespace

std::uint64_t connections_of(const Scenario& scenario) {
    double connections = 0;
    for (const Group& group : scenario.groups)
        connections += group.clients * connections_per_client(group, scenario);
    return static_cast<std::uint64_t>(std::ceil(connections));
}

std::uint32_t usual_clients(std::uint32_t written, const MachineLimits& limits) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(written, std::max<std::uint64_t>(2, room_for_clients(limits))));
}

void settle_transports(Scenario& scenario, const Target& target) {
    for (Group& group : scenario.groups) {
        if (!group.transport_given) group.transport = target.servers.at(0).transport;
        if (!target.servers_of(group.transport).empty()) continue;
        const auto name = name_of(group.transport);
        throw std::runtime_error(fmt::format(
            "group '{}' has transport = {}, and --connect names no such server; add it, such as "
            "{}://HOST:PORT",
            group.name, name,
            group.transport == TransportKind::tls   ? "mqtts"
            : group.transport == TransportKind::tcp ? "mqtt"
                                                    : name));
    }
}

void check_share(const Scenario& scenario, std::uint32_t workers, const MachineLimits& limits) {
    if (divided(connections_of(scenario), workers) > room_for_clients(limits))
        refuse_files(scenario, workers, limits);
}

Layout lay_out(const Scenario& scenario, const Target& target, const LayoutOptions& options,
               const MachineLimits& limits) {
    Layout layout;
    if (options.elsewhere) {
        layout.workers = options.workers.value_or(1);
    } else {
        check_machine(scenario, limits);
        choose_workers(layout, scenario, options, limits);
    }
    choose_sources(layout, scenario, target, options, limits);
    choose_in_progress(layout, options, limits);
    note_longer_run(layout, scenario);
    return layout;
}

}  // namespace pulsegate::load
