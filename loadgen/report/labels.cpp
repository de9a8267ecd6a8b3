#include "loadgen/report/labels.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "loadgen/measure/in_order.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

struct TimingLabel {
    Timing id;
    std::string_view text;
};

constexpr std::array<TimingLabel, timings_size> timing_labels{{
    {Timing::login, "login"},
    {Timing::tcp_connect, "TCP connect"},
    {Timing::message, "message latency"},
    {Timing::message_return, "after return"},
    {Timing::send_lag, "generator lag"},
    {Timing::acknowledgement, "acknowledgement"},
    {Timing::ping, "ping answer"},
    {Timing::expiry, "expiry"},
    {Timing::detection, "offline shown"},
    {Timing::appearance, "online shown"},
    {Timing::back_again, "back again"},
    {Timing::last_attempt, "last attempt"},
    {Timing::loop_lag, "event loop lag"},
}};
static_assert(in_order(timing_labels));

std::string several(std::uint64_t count, const char* one, const char* more) {
    return count == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", show_count(count), more);
}

std::string show_small_time(double value) {
    return std::abs(value) < 1e-4 ? fmt::format("{:.1f} µs", value * 1e6)
                                  : show(from_seconds(value));
}

void append(std::string& text, const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += ", ";
    text += part;
}

}  // namespace

std::string_view label_of(Timing timing) {
    return timing_labels[static_cast<std::size_t>(timing)].text;
}

std::string show_bytes(double bytes) {
    constexpr std::array units{"bytes", "kB", "MB", "GB", "TB"};
    std::size_t unit = 0;
    while (std::abs(bytes) >= 999.5 && unit + 1 < units.size()) {
        bytes /= 1000;
        ++unit;
    }
    const int digits = unit == 0 || std::abs(bytes) >= 99.95 ? 0 : std::abs(bytes) >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f} {}", bytes, digits, units[unit]);
}

std::string show_moment(std::int64_t unix_seconds) {
    return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                       fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string show_cores(double cores) {
    if (cores < 0.995) return fmt::format("{:.0f} % of a core", cores * 100);
    return fmt::format("{:.2g} cores", cores);
}

std::string show_figure(double value, Unit unit) {
    switch (unit) {
        case Unit::per_second: return show_rate(value);
        case Unit::time: return show_small_time(value);
        case Unit::cores: return fmt::format("{:.2f} cores", value);
        case Unit::bytes: return show_bytes(value);
        case Unit::share: return fmt::format("{:.4g} %", value * 100);
        case Unit::count: break;
    }
    return show_count(static_cast<std::uint64_t>(std::llround(value)));
}

std::string about_run(const RunRecord& record) {
    std::string text = record.target;
    append(text, several(record.clients, "client", "clients"));
    if (record.workers > 0)
        append(text, several(record.workers, "process", "processes") + " of the generator");
    if (record.sources > 1) append(text, fmt::format("from {} addresses", record.sources));
    if (record.started != 0) append(text, show_moment(record.started));
    return text;
}

std::string about_machine(const MachineDescription& machine) {
    std::string text = machine.cpu;
    if (machine.cores > 0) append(text, several(machine.cores, "core", "cores"));
    if (machine.memory > 0)
        append(text, show_bytes(static_cast<double>(machine.memory)) + " of memory");
    append(text, machine.system);
    if (machine.files > 0) append(text, show_count(machine.files) + " open files a process");
    return text;
}

std::string about_server(const ServerDescription& server) {
    std::string text = server.on_this_machine ? "on the generator's machine" : "on another machine";
    if (server.pid != 0) append(text, fmt::format("process {}", server.pid));
    append(text, server.command);
    if (!server.metrics.empty()) append(text, "metrics from " + server.metrics);
    return text;
}

}  // namespace pulsegate::load
