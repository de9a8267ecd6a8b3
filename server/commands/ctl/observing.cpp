#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "server/commands/ctl/ctl_commands.h"
#include "server/commands/ctl/text_table.h"

namespace pulsegate {

namespace {

constexpr const char* status_path = "/api/v1/status";

std::string readiness_text(const boost::json::value& status) {
    if (member_at(status, "ready") == true) return "ready";
    return "not ready: " + plain_text(member_at(status, "why"));
}

void print_status(const boost::json::value& status) {
    const auto count = [&](std::string_view path) { return grouped(number_at(status, path)); };
    const auto size = [&](std::string_view path) { return size_text(number_at(status, path)); };
    fmt::print("pulsegate {}, process {}, up {}: {}\n", plain_text(member_at(status, "version")),
               number_at(status, "pid"), span_text(number_at(status, "uptime")),
               readiness_text(status));
    fmt::print("clients   {} connected, {} away, room for {}\n", count("clients.connected"),
               count("clients.away"), count("clients.capacity"));
    fmt::print("users     {} online, {} known\n", count("users.online"), count("users.known"));
    fmt::print("logins    {} accepted, {} refused, {} taken over, {} timed out\n",
               count("logins.accepted"), count("logins.refused"), count("logins.taken_over"),
               count("logins.timed_out"));
    fmt::print("messages  {} received, {} sent, {} dropped\n", count("messages.received"),
               count("messages.sent"), count("messages.dropped"));
    fmt::print("waiting   {} queued, {} delayed, {} retained\n", count("messages.queued"),
               count("messages.delayed"), count("messages.retained"));
    fmt::print("memory    {} of {}\n", size("memory.bytes"), size("memory.budget"));
    fmt::print("disk      {} of {}\n", size("disk.bytes"), size("disk.most"));
    const auto& shards = member_at(status, "shards");
    for (std::size_t i = 0; shards.is_array() && i < shards.get_array().size(); ++i) {
        const auto& shard = shards.get_array()[i];
        fmt::print("shard {:<3} {} clients, event loop {} ms late\n", i,
                   grouped(number_at(shard, "clients")), number_at(shard, "lag_ms"));
    }
}

/// Rates per second between two answers.
class Rates {
public:
    Rates(const boost::json::value& before, const boost::json::value& now, double seconds)
        : before_(before), now_(now), seconds_(seconds) {}

    std::string operator()(std::string_view path) const {
        const auto difference = number_at(now_, path) - number_at(before_, path);
        return grouped(std::llround(static_cast<double>(difference) / seconds_));
    }

private:
    const boost::json::value& before_;
    const boost::json::value& now_;
    double seconds_;
};

void print_rates(const boost::json::value& now, const Rates& rate) {
    fmt::print("{:%H:%M:%S} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>10}\n",
               std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()),
               grouped(number_at(now, "clients.connected")),
               grouped(number_at(now, "users.online")), rate("logins.accepted"),
               rate("packets.received"), rate("messages.received"), rate("messages.sent"),
               grouped(number_at(now, "messages.queued")),
               size_text(number_at(now, "memory.bytes")));
    std::fflush(stdout);
}

/// `lines` of them, one every `seconds`; 0: until it is stopped.
int watch(const Ctl& ctl, unsigned seconds, unsigned lines) {
    using Clock = std::chrono::steady_clock;
    const auto client = ctl.client();
    boost::json::value before;
    auto asked = Clock::now();
    for (unsigned line = 0; lines == 0 || line <= lines; ++line) {
        const auto answer = client.get(status_path);
        if (!answer.ok()) throw std::runtime_error(answer.refusal());
        auto now = answer.json();
        const auto at = Clock::now();
        const double passed = std::chrono::duration<double>(at - asked).count();
        constexpr unsigned lines_a_heading = 20;
        if (line % lines_a_heading == 1)
            fmt::print("{:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>10}\n", "UTC", "clients",
                       "online", "logins/s", "pkts/s", "in/s", "out/s", "queued", "memory");
        if (line > 0) print_rates(now, Rates(before, now, passed));
        before = std::move(now);
        asked = at;
        if (line < lines || lines == 0) std::this_thread::sleep_for(std::chrono::seconds(seconds));
    }
    return ctl_done;
}

/// Why /healthz or /readyz is not 200.
std::string fault_of(const boost::json::value& answer) {
    const std::string why = plain_text(member_at(answer, "why"));
    return why.empty() ? "stalled event loops: " + plain_text(member_at(answer, "stalled")) : why;
}

/// Checks whether the gateway is alive and fully working.
int check(const Ctl& ctl) {
    int status = ctl_done;
    for (const char* const path : {"/healthz", "/readyz"}) {
        const auto answer = ctl.client().get(path);
        if (ctl.json) fmt::print("{}", answer.text);
        if (answer.ok()) continue;
        status = ctl_refused;
        if (!ctl.json) fmt::print("{}: {}\n", path, fault_of(answer.json()));
    }
    if (status == ctl_done && !ctl.json) fmt::print("ready\n");
    return status;
}

}  // namespace

void add_observing(CLI::App& app, Ctl& ctl) {
    auto* const status =
        app.add_subcommand("status", "Show the gateway's version, state and main figures");
    status->callback([&ctl] { ctl.run = [&ctl] { return ctl.get(status_path, print_status); }; });

    auto* const top =
        app.add_subcommand("top", "Show clients, rates and memory, one line per second");
    struct Options {
        unsigned seconds = 1;
        unsigned lines = 0;
    };
    const auto options = std::make_shared<Options>();
    top->add_option("--every", options->seconds, "Seconds between lines")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    top->add_option("-n,--lines", options->lines, "Stop after this many lines; 0: do not stop")
        ->capture_default_str();
    top->callback([&ctl, options] {
        ctl.run = [&ctl, options] { return watch(ctl, options->seconds, options->lines); };
    });

    auto* const checks =
        app.add_subcommand("check", "Exit with status 0 if the gateway is healthy and ready");
    checks->callback([&ctl] { ctl.run = [&ctl] { return check(ctl); }; });
}

}  // namespace pulsegate
