#include "server/handover/upgrade.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "server/base/machine.h"
#include "server/base/secrets/secret_bytes.h"
#include "server/base/version.h"
#include "server/handover/channel.h"
#include "server/handover/standstill.h"
#include "server/handover/successor.h"
#include "server/handover/terms.h"
#include "server/http/admin.h"
#include "server/shard/data_store.h"
#include "server/shard/shard.h"
#include "server/shard/shard_status.h"
#include "server/start/service_manager.h"

namespace pulsegate {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// The time for the new process to read its settings, while this one serves.
constexpr auto longest_start = 10s;

/// The longest pause if the order says none: 1 s, so that clients hardly notice an upgrade. Passing
/// on 20,000 clients takes less than a second, and so does loading 100,000 sessions, users and
/// messages.
Millis default_pause(std::size_t clients, std::size_t loaded) {
    const double seconds =
        static_cast<double>(clients) / 20'000 + static_cast<double>(loaded) / 100'000;
    return static_cast<Millis>(1'000 * std::max(1.0, seconds));
}

/// Measures the time in which neither process serves.
class Pause {
public:
    explicit Pause(UpgradeOutcome& outcome) : outcome_(outcome) {}
    ~Pause() { outcome_.pause = monotonic_now() - began_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

private:
    UpgradeOutcome& outcome_;
    const Millis began_ = monotonic_now();
};

/// Ends the new process before the old one continues, because only one of them may have the store
/// open.
struct EndFirst {
    Successor& successor;
    ~EndFirst() { successor.end(); }
};

/// The path that this process was started from. It may lead to another file by now.
std::string own_program() {
    constexpr std::string_view deleted = " (deleted)";
    std::error_code error;
    std::string path = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) throw HandoverError("can't find out which program this is: name one");
    if (path.ends_with(deleted)) path.resize(path.size() - deleted.size());
    return path;
}

/// Signals are pending, because the main thread, which takes them, is busy here.
bool is_pending(int signal) {
    sigset_t pending;
    sigemptyset(&pending);
    return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

constexpr std::array stop_signals{SIGTERM, SIGINT};
/// What the new process has to do, too, because it has read its settings and opened its files
/// before the signal came. All of these wait there until it serves.
constexpr std::array passed_signals{SIGHUP, SIGUSR1, SIGTERM, SIGINT};

/// Hands everything over, step by step.
class Upgrade {
public:
    Upgrade(const GatewayPieces& gateway, const UpgradeOrder& order, char** arguments)
        : gateway_(gateway),
          order_(order),
          successor_(order.program.empty() ? own_program() : order.program, arguments) {}

    void run(UpgradeOutcome& outcome) {
        const UpgradeHello hello =
            decode_hello(channel().expect(HandoverStep::hello, Clock::now() + longest_start).body);
        outcome.to = hello.version;
        const auto why = objection(hello, own_hello(gateway_.promises));
        if (!why.empty()) throw HandoverError(why);
        if (gateway_.store.refuses()) throw HandoverError(gateway_.store.why_refused());
        const auto lack = objection({.disk = gateway_.store.free_disk(),
                                     .own_memory = own_memory(),
                                     .unused_memory = unused_memory()});
        if (!lack.empty()) throw HandoverError(lack);
        gateway_.admin.end_repeated();  // before the pause begins
        const Millis most = order_.longest_pause ? *order_.longest_pause : usual_pause();
        const auto deadline = Clock::now() + std::chrono::milliseconds(most);
        const Pause pause(outcome);
        try {
            replace(hello, deadline, outcome);
        } catch (const HandoverLate& error) {
            throw HandoverError(fmt::format("{}; clients may wait for {} s (--longest-pause)",
                                            error.what(), static_cast<double>(most) / 1000));
        }
    }

private:
    void replace(const UpgradeHello& hello, HandoverChannel::Deadline deadline,
                 UpgradeOutcome& outcome) {
        Standstill standstill(gateway_, deadline);
        const EndFirst guard{successor_};
        try {
            pass_all(standstill, hello, deadline, outcome);
        } catch (const OtherEnded&) {
            // The new process may have sent the reason while this process was sending.
            channel().expect(HandoverStep::refused, Clock::now());
        }
        if (!order_.is_rehearsal) go(standstill, deadline, outcome);
        outcome.end = UpgradeOutcome::End::rehearsed;
    }

    Millis usual_pause() {
        std::size_t clients = 0, loaded = 0;
        for (Shard* shard : gateway_.shards) {
            const auto count = [&](Shard& each) {
                const ShardStatus status = each.status();
                clients += status.connections;
                loaded += status.disconnected + status.users + status.waiting + status.retained;
            };
            shard->call(count).get();
        }
        return default_pause(clients, loaded);
    }

    HandoverChannel& channel() { return successor_.channel(); }

    void pass_all(Standstill& standstill, const UpgradeHello& hello,
                  HandoverChannel::Deadline deadline, UpgradeOutcome& outcome) {
        const bool reads_gateway = hello.gateway != 0;
        channel().send(HandoverStep::lock, "", deadline, standstill.close_store());
        if (reads_gateway) pass_gateway(deadline);
        for (const auto& [url, socket] : gateway_.sockets)
            channel().send(HandoverStep::listener, url, deadline, socket);
        channel().send(HandoverStep::listeners, "", deadline);
        if (reads_gateway)
            for (Shard* shard : gateway_.shards) pass_history(*shard, deadline);
        for (Shard* shard : gateway_.shards) pass_clients(*shard, deadline, outcome);
        channel().send(HandoverStep::clients, "", deadline);
        const Ready ready = decode_ready(channel().expect(HandoverStep::ready, deadline).body);
        divides_rooms_ = ready.divides_rooms;
        if (ready.adopted + ready.refused != outcome.moved)
            throw HandoverError(fmt::format("{} clients were passed on, and {} have arrived",
                                            outcome.moved, ready.adopted + ready.refused));
        if (ready.refused > 0) outcome.left["refused by the new process"] += ready.refused;
        outcome.moved = ready.adopted;
        for (const auto number : ready.refused_clients)
            if (number < passed_.size()) refused_.push_back(passed_[number]);
        std::ranges::sort(refused_);
    }

    void pass_gateway(HandoverChannel::Deadline deadline) {
        std::string state = gateway_.describe();
        const WipedAtEnd wiped(state);
        channel().send(HandoverStep::gateway, state, deadline);
    }

    void pass_history(Shard& shard, HandoverChannel::Deadline deadline) {
        const auto pass = [&](std::string_view events) {
            channel().send(HandoverStep::history, events, deadline);
        };
        shard.call([&](Shard& each) { each.upgrade().export_history(pass); }).get();
    }

    void pass_clients(Shard& shard, HandoverChannel::Deadline deadline, UpgradeOutcome& outcome) {
        const auto pass = [&](int socket, std::string_view state) {
            channel().send(HandoverStep::client, state, deadline, socket);
            passed_.push_back(socket);
        };
        ExportCounts counts;
        shard.call([&](Shard& each) { counts = each.upgrade().export_clients(pass); }).get();
        outcome.moved += counts.moved;
        for (const auto& [reason, clients] : counts.left) outcome.left[reason] += clients;
    }

    /// Tells the new process to serve. Always throws, or ends this process.
    [[noreturn]] void go(const Standstill& standstill, HandoverChannel::Deadline deadline,
                         const UpgradeOutcome& outcome) {
        if (std::ranges::any_of(stop_signals, is_pending))
            throw HandoverError("a signal asks the gateway to stop");
        channel().send(HandoverStep::go, encode(Go{outcome, standstill.since()}), deadline);
        // If the new process is redistributing rooms, this process could not take over again. So it
        // waits longer.
        const auto until = divides_rooms_ ? std::max(deadline, patience_with_rooms()) : deadline;
        try {
            channel().expect(HandoverStep::serving, until);
        } catch (const HandoverError& error) {
            successor_.end();
            if (!divides_rooms_ && !has_served()) throw;
            spdlog::critical(
                "the new process failed after it had {}: {}; the gateway exits",
                divides_rooms_ ? "divided the rooms among its shards" : "begun to serve",
                error.what());
            leave(start_again);
        }
        service::tell_main_process(successor_.process());
        spdlog::info("process {} has taken over", successor_.process());
        end_left_behind();
        spdlog::default_logger_raw()->flush();
        for (const int signal : passed_signals)
            if (is_pending(signal)) ::kill(successor_.process(), signal);
        std::_Exit(0);
    }

    /// Whatever happens here, the other process serves now.
    void end_left_behind() const noexcept {
        const auto until = Clock::now() + 250ms;
        try {
            for (Shard* shard : gateway_.shards)
                shard->call([this](Shard& each) { each.upgrade().end_left_behind(refused_); })
                    .wait_until(until);
        } catch (const std::exception&) {
            // There is no memory. They see their connections end.
        }
    }

    static HandoverChannel::Deadline patience_with_rooms() {
        return std::chrono::steady_clock::now() + std::chrono::minutes(1);
    }

    /// Has the new process, which has ended, reported that it serves? It may have done so at the
    /// last moment, and may have acknowledged messages.
    bool has_served() {
        try {
            channel().expect(HandoverStep::serving, std::chrono::steady_clock::now());
            return true;
        } catch (const HandoverError&) {
            return false;
        }
    }

    /// Ends the process at once. It closes and writes nothing but its log, because another process
    /// has everything. The log stays, because other threads may still write to it.
    [[noreturn]] static void leave(int status) {
        spdlog::default_logger_raw()->flush();
        std::_Exit(status);
    }

    const GatewayPieces& gateway_;
    const UpgradeOrder& order_;
    Successor successor_;
    bool divides_rooms_ = false;
    std::vector<int> passed_{};   ///< the sockets of the clients, in the order of their messages
    std::vector<int> refused_{};  ///< those that the new process has refused, in order of numbers
};

}  // namespace

UpgradeOutcome upgrade(const GatewayPieces& gateway, const UpgradeOrder& order, char** arguments) {
    UpgradeOutcome outcome{.from = program_version(), .when = wall_now()};
    try {
        Upgrade(gateway, order, arguments).run(outcome);
    } catch (const std::exception& error) {
        outcome.why = error.what();
    }
    return outcome;
}

}  // namespace pulsegate
