#include "loadgen/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace pulsegate::load {

namespace {

constexpr std::uint32_t usual_clients = 15'000;
constexpr double usual_packets = 3'000;  // a second, sent by all clients together

/// Descriptors for all but clients: the poller, timers, signals, the report, and a reserve.
constexpr std::uint64_t reserved_files = 50;

// A source address has about 28,000 ports towards one server, and some of them may still be in
// TIME_WAIT from the run before.
constexpr std::uint32_t clients_per_source = 20'000;
constexpr std::uint32_t usual_sources = 16;

std::uint32_t silent_among(std::uint32_t clients, double fraction) {
    return static_cast<std::uint32_t>(Share{.fraction = fraction}.of(clients));
}

void choose_clients(Plan& plan, const Machine& machine) {
    const auto room = machine.files > reserved_files ? machine.files - reserved_files : 0;
    if (plan.options.clients) {
        plan.clients = *plan.options.clients;
        if (plan.clients <= room) return;
        throw std::runtime_error(fmt::format(
            "--clients {}: the file limit of {} leaves room for {}; raise it with 'ulimit -n {}' "
            "(LimitNOFILE= in a systemd unit, nofile in /etc/security/limits.conf), for the server "
            "too",
            plan.clients, machine.files, room, plan.clients + 1000));
    }
    plan.clients = static_cast<std::uint32_t>(std::min<std::uint64_t>(usual_clients, room));
    if (plan.clients < 2)
        throw std::runtime_error(
            fmt::format("the file limit of {} is too low; raise it with "
                        "'ulimit -n 20000'",
                        machine.files));
    if (plan.clients < usual_clients)
        plan.notes.push_back(
            fmt::format("{} clients instead of {}: the file limit is {}; 'ulimit -n {}' raises it",
                        show_count(plan.clients), show_count(usual_clients), machine.files,
                        usual_clients + 1000));
}

void choose_storm(Plan& plan) {
    const auto storm = plan.options.storm.of(plan.clients);
    if (storm >= plan.clients)
        throw std::runtime_error(
            fmt::format("--storm {}: some of the {} clients must stay out of the storm; raise "
                        "--clients or lower --storm",
                        storm, plan.clients));
    plan.storm = static_cast<std::uint32_t>(storm);
    if (plan.storm > 0 && plan.options.storm_after >= plan.options.duration)
        plan.notes.push_back(fmt::format(
            "--duration {} ends before the storm: the run is extended until the storm is over",
            show(plan.options.duration)));
}

void choose_sources(Plan& plan, const Machine& machine) {
    const auto most = std::min(machine.ports * 9 / 10, clients_per_source);
    const auto needed = (plan.clients + most - 1) / std::max(most, 1u);
    if (!plan.loopback) {
        if (plan.clients <= machine.ports) return;
        throw std::runtime_error(fmt::format(
            "--clients {}: one source address has {} ports towards a server; widen them with "
            "'sysctl net.ipv4.ip_local_port_range=\"1024 65535\"' or use several machines",
            plan.clients, machine.ports));
    }
    plan.sources = plan.options.sources.value_or(std::max(needed, usual_sources));
    plan.sources = std::min(plan.sources, plan.clients);
    if (plan.clients / plan.sources > machine.ports)
        throw std::runtime_error(fmt::format(
            "--sources {}: a source address has {} ports; use at least {} addresses, or widen the "
            "ports with 'sysctl net.ipv4.ip_local_port_range=\"1024 65535\"'",
            plan.sources, machine.ports, needed));
}

void choose_in_progress(Plan& plan, const Machine& machine) {
    plan.in_progress = plan.options.in_progress;
    if (!plan.loopback || plan.in_progress <= machine.backlog) return;
    plan.in_progress = machine.backlog;
    plan.notes.push_back(fmt::format(
        "{} logins in progress instead of {}: net.core.somaxconn lets no more wait at a listener",
        plan.in_progress, plan.options.in_progress));
}

void choose_messages(Plan& plan) {
    const auto talkers = plan.established() - plan.silent_clients();
    const double ping_every = seconds(plan.options.keepalive) * (earliest_ping + latest_ping) / 2;
    const double pings = (talkers + plan.storm) / ping_every;
    plan.messages =
        plan.options.messages.value_or(std::max(0.0, std::floor(usual_packets - pings)));
    if (talkers >= 2 || plan.messages == 0) return;
    if (plan.options.messages)
        throw std::runtime_error(fmt::format(
            "--messages {}: needs two talking clients, and there are {}; raise --clients or "
            "lower --silent{}",
            *plan.options.messages, talkers, plan.storm > 0 ? " or --storm" : ""));
    plan.messages = 0;
}

}  // namespace

bool Plan::falls_silent(std::uint32_t client) const {
    return silent_among(client + 1, options.silent) > silent_among(client, options.silent);
}

std::uint32_t Plan::silent_clients() const { return silent_among(established(), options.silent); }

Plan make_plan(const Options& options, bool loopback, const Machine& machine) {
    Plan plan;
    plan.options = options;
    plan.loopback = loopback;
    plan.limit = options.limit.value_or(Duration(options.keepalive) * 3 / 2);
    plan.silent_over = options.silent_over.value_or(Duration(options.keepalive) / 2);
    choose_clients(plan, machine);
    choose_storm(plan);
    choose_sources(plan, machine);
    choose_in_progress(plan, machine);
    choose_messages(plan);

    if (plan.silent_clients() > 0 && plan.judged_after() > options.duration)
        plan.notes.push_back(fmt::format(
            "--duration {} is too short to judge the silent clients: the run takes {} or less",
            show(options.duration), show(plan.judged_after())));
    return plan;
}

}  // namespace pulsegate::load
