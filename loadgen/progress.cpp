#include "loadgen/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace pulsegate::load {

namespace {

using Phase = Fleet::Phase;

constexpr Duration line_every = std::chrono::seconds(5);
constexpr Duration worth_a_line = std::chrono::milliseconds(500);

std::string bar(double fraction) {
    constexpr int width = 24;
    const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
    std::string text;
    for (int i = 0; i < width; ++i) text += i < full ? "█" : "░";
    return text;
}

/// ", 3 failed", or nothing if the count is 0.
std::string complaint(std::uint64_t count, const char* what) {
    return count == 0 ? std::string() : fmt::format(", {} {}", show_count(count), what);
}

}  // namespace

Progress::Progress(const Plan& plan) : plan_(plan), terminal_(isatty(STDERR_FILENO) != 0) {
    begin(Phase::ramping);
}

Progress::~Progress() { finish_line(); }

void Progress::show(const Fleet::Glance& glance) {
    if (glance.phase != phase_) begin(glance.phase);
    if (glance.phase == Phase::done) return;
    if (glance.phase == Phase::draining && glance.elapsed < worth_a_line) return;

    line_ = line(glance);
    if (terminal_) {
        fmt::print(stderr, "\r{}\033[K", line_);
        std::fflush(stderr);
    }
    line_is_out_ = false;
    if (!terminal_ && Clock::now() >= next_line_) finish_line();
}

void Progress::begin(Phase phase) {
    finish_line();
    phase_ = phase;
    next_line_ = Clock::now() + line_every;
    last_packets_ = 0;
    last_look_ = {};
}

/// Keeps the line; the next one is printed below it.
void Progress::finish_line() {
    if (line_is_out_) return;
    if (terminal_)
        fmt::print(stderr, "\n");
    else
        fmt::print(stderr, "{}\n", line_);
    line_is_out_ = true;
    next_line_ = Clock::now() + line_every;
}

std::string Progress::line(const Fleet::Glance& glance) {
    const double length = seconds(glance.length);
    const double fraction = length > 0 ? seconds(glance.elapsed) / length : 1;
    switch (glance.phase) {
        case Phase::ramping: {
            const auto& established = glance.results.connections;
            const double settled = established.connected + established.failed +
                                   glance.storm.connected + glance.storm.failed;
            return fmt::format("connecting {} {}", bar(settled / plan_.clients), ramping(glance));
        }
        case Phase::running: return fmt::format("running    {} {}", bar(fraction), running(glance));
        case Phase::draining: return fmt::format("draining   {}", bar(fraction));
        case Phase::done: break;
    }
    return {};
}

std::string Progress::ramping(const Fleet::Glance& glance) const {
    const auto& connections = glance.results.connections;
    return fmt::format("{} of {}{}{}", show_count(connections.connected + glance.storm.connected),
                       show_count(plan_.clients),
                       complaint(connections.failed + glance.storm.failed, "failed"),
                       complaint(glance.results.false_offline, "false offline"));
}

std::string Progress::running(const Fleet::Glance& glance) {
    const Time now = Clock::now();
    if (last_look_ != Time() && now > last_look_)
        packet_rate_ =
            static_cast<double>(glance.packets - last_packets_) / seconds(now - last_look_);
    else if (glance.elapsed > worth_a_line)
        packet_rate_ = static_cast<double>(glance.packets) / seconds(glance.elapsed);
    last_look_ = now;
    last_packets_ = glance.packets;

    const auto& messages = glance.results.messages;
    const auto& silence = glance.results.silence;
    std::string text =
        fmt::format("{:.0f} of {:.0f} s, {} open, {} packets/s", seconds(glance.elapsed),
                    seconds(std::max(glance.length, glance.elapsed)), show_count(glance.open),
                    show_count(static_cast<std::uint64_t>(packet_rate_)));
    if (!messages.latency.empty())
        text += fmt::format(", p99 {}", load::show(messages.latency.percentile(0.99)));
    if (glance.storm.stage >= Storm::Stage::vanishing)
        text +=
            fmt::format(", {} of {} back", show_count(glance.storm.back), show_count(plan_.storm));
    if (silence.silent > 0)
        text += fmt::format(", {} of {} silent closed",
                            show_count(silence.expiry.count() + silence.unclear),
                            show_count(plan_.silent_clients()));
    return text + complaint(silence.early, "early") + complaint(silence.late, "late") +
           complaint(glance.results.false_offline, "false offline");
}

}  // namespace pulsegate::load
