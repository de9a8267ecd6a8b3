#include "loadgen/lab/coordinator.h"

#include <fmt/format.h>
#include <poll.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "loadgen/lab/conductor.h"
#include "loadgen/lab/work_order.h"
#include "loadgen/observe/observer.h"
#include "loadgen/report/checks.h"
#include "loadgen/report/live.h"
#include "loadgen/units.h"
#include "loadgen/version.h"

namespace pulsegate::load {

namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr Duration show_every = 200ms;
constexpr std::size_t most_observed = 16;  ///< servers

/// Local workers share our clock. The clock of a remote worker is only known to some precision: if
/// the error can be larger than this, the report says so, because a message may take less time.
constexpr Duration notable_clock_error = 1ms;

std::uint64_t random_number() {
    std::random_device dice;
    return std::uint64_t{dice()} << 32 | dice();
}

std::string servers_text(const Target& target) {
    std::string text;
    for (const auto& server : target.servers) text += (text.empty() ? "" : ", ") + url_of(server);
    return text;
}

std::string override_text(const Setting& setting) {
    return (setting.group.empty() ? "" : setting.group + ".") + setting.key + "=" + setting.value;
}

/// The scenario's file, followed by the settings that were overridden.
std::string scenario_text(const RunRequest& request) {
    std::string text = request.text.text;
    for (const Setting& setting : request.overrides)
        text += fmt::format("# --set {}\n", override_text(setting));
    if (request.scale != 1) text += fmt::format("# --scale {}\n", request.scale);
    return text;
}

WorkOrder order_of(const PreparedRun& run, std::uint32_t workers) {
    const RunRequest& request = run.request;
    WorkOrder order;
    order.text = request.text;
    for (const Setting& setting : request.overrides)
        order.overrides.push_back(override_text(setting));
    order.scale = request.scale;
    order.target = request.target;
    order.workers = workers;
    order.run = random_number();
    order.seed = run.scenario.seed != 0 ? run.scenario.seed : random_number();
    order.in_progress = run.layout.in_progress;
    order.sources = run.layout.sources;
    return order;
}

LiveState::Phase live_phase(Conductor::Phase phase) {
    switch (phase) {
        case Conductor::Phase::preparing:
        case Conductor::Phase::ramping: return LiveState::Phase::connecting;
        case Conductor::Phase::running: return LiveState::Phase::running;
        case Conductor::Phase::draining: return LiveState::Phase::draining;
        default: return LiveState::Phase::judging;
    }
}

/// One run: sockets, clock and terminal around the conductor.
class Run {
public:
    Run(const PreparedRun& prepared, WorkerPool& pool, Interruption& interruption)
        : prepared_(prepared),
          pool_(pool),
          interruption_(interruption),
          order_(order_of(prepared, static_cast<std::uint32_t>(pool.members().size()))),
          conductor_(prepared.scenario, names(), outlet(), Clock::now()) {
        for (const ServerAddress& server : prepared.request.target.servers) watch(server);
    }

    RunRecord carry_out() {
        started_ = std::chrono::system_clock::now();
        for (const auto& note : prepared_.layout.notes) conductor_.note(note);
        hand_out_plans();
        while (conductor_.phase() != Conductor::Phase::over) step();
        flush();
        if (!conductor_.failure().empty()) give_up(conductor_.failure());
        return record();
    }

private:
    struct Observed {
        explicit Observed(Observer::Options options) : observer(std::move(options)) {}
        Observer observer;
        Measurements latest;
    };

    [[noreturn]] void give_up(const std::string& why) const {
        if (conductor_.interrupted()) throw Interrupted(why);
        throw std::runtime_error(why);
    }

    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& member : pool_.members()) names.push_back(member.name);
        return names;
    }

    Conductor::Outlet outlet() {
        return {[this](std::uint32_t worker, const json::object& message) {
                    auto text = message;
                    // Each worker gets the times of its own clock.
                    if (auto* at = text.if_contains("at"))
                        *at = at->to_number<std::int64_t>() -
                              pool_.members()[worker].clock_offset.count();
                    send(worker, text);
                },
                [this](std::uint32_t worker, std::string_view flows) {
                    pool_.members()[worker].link.send(FrameKind::flows, flows);
                }};
    }

    // The options for the process and for the metrics belong to the first server.
    void watch(const ServerAddress& server) {
        const bool first = observed_.empty();
        if (observed_.size() == most_observed) return;
        observed_.emplace_back(
            Observer::Options{server.host, server.port, first ? prepared_.request.server_pid : 0,
                              first ? prepared_.request.metrics : std::string()});
    }

    void send(std::uint32_t worker, const json::object& message) {
        pool_.members()[worker].link.send(FrameKind::json, json::serialize(message));
    }

    void hand_out_plans() {
        for (std::uint32_t worker = 0; worker < pool_.members().size(); ++worker) {
            const auto& member = pool_.members()[worker];
            order_.worker = worker;
            order_.clock_offset = member.clock_offset;
            auto plan = to_json(order_);
            plan["version"] = program_version();
            send(worker, plan);
            if (member.clock_error > notable_clock_error)
                conductor_.note(fmt::format(
                    "the clock of {} is known to {}: times of messages between machines are wrong "
                    "by that much at most",
                    member.name, show(member.clock_error)));
        }
    }

    void step() {
        wait();
        if (interruption_.take()) conductor_.interrupt(Clock::now());
        for (std::uint32_t worker = 0; worker < pool_.members().size(); ++worker) hear(worker);
        const Time now = Clock::now();
        conductor_.tick(now);
        observe(now);
        show_view(now);
    }

    void wait() {
        std::vector<pollfd> polled{{interruption_.fd(), POLLIN, 0}};
        for (const auto& member : pool_.members()) {
            const short events = member.link.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
            polled.push_back({member.link.fd(), events, 0});
        }
        ::poll(polled.data(), polled.size(), 100);
    }

    void hear(std::uint32_t worker) {
        auto& member = pool_.members()[worker];
        const bool alive = member.link.move();
        while (const auto frame = member.link.next()) {
            if (frame->kind == FrameKind::flows)
                conductor_.heard_flows(worker, frame->body);
            else
                hear_message(worker, frame->body);
        }
        if (!alive && conductor_.phase() != Conductor::Phase::over)
            conductor_.lost(worker, member.process ? member.process->ending()
                                                   : "closed its control connection");
    }

    void hear_message(std::uint32_t worker, const std::string& text) {
        json::error_code error;
        const auto message = json::parse(text, error);
        if (error || !message.is_object())
            return conductor_.lost(worker, "sent what is not a message");
        conductor_.heard(worker, message.get_object(), Clock::now());
    }

    /// Adds the latest levels of every server once for each second of the run, because the levels
    /// of all servers in a second are added up.
    void observe(Time now) {
        const auto second = static_cast<std::uint32_t>(conductor_.seconds_since_start(now));
        for (Observed& each : observed_)
            if (auto levels = each.observer.take_levels(); !levels.empty()) each.latest = levels;
        if (second == observed_second_) return;
        observed_second_ = second;
        std::set<std::uint32_t> seen;
        for (std::uint32_t at = 0; at < observed_.size(); ++at) {
            const auto pid = observed_[at].observer.server().pid;
            // One process may listen on several ports.
            if (pid == 0 || seen.insert(pid).second) conductor_.add(now, observed_[at].latest, at);
        }
    }

    void show_view(Time now) {
        if (now < next_show_) return;
        next_show_ = now + show_every;
        live_.show({live_phase(conductor_.phase()), conductor_.elapsed(now), conductor_.length(),
                    conductor_.seconds_since_start(now), &prepared_.scenario, &conductor_.series(),
                    &conductor_.totals()},
                   now);
    }

    /// Lets "end" reach the workers, so that their clients leave in order.
    void flush() {
        const Time enough = Clock::now() + 1s;
        for (auto& member : pool_.members())
            while (member.link.wants_to_write() && member.link.move() && Clock::now() < enough)
                wait();
    }

    RunRecord record() {
        RunRecord record;
        record.version = program_version();
        record.name = prepared_.scenario.name;
        record.command = prepared_.request.command;
        record.scenario = scenario_text(prepared_.request);
        record.target = servers_text(prepared_.request.target);
        record.is_cluster = prepared_.request.target.cluster;
        record.started = std::chrono::system_clock::to_time_t(started_);
        record.clients = prepared_.scenario.clients();
        record.workers = order_.workers;
        record.sources = std::max(1u, order_.sources);
        record.interrupted = conductor_.interrupted();
        record.remote = pool_.remote();
        record.machine = describe_machine();
        record.server = observed_.front().observer.server();
        record.series = conductor_.series().stretches();
        record.totals = conductor_.totals();
        record.marks = conductor_.marks();
        record.examples = conductor_.examples();
        record.notes = conductor_.notes();
        if (shows_no_presence(prepared_.scenario, record))
            record.notes.push_back("the server shows nobody's presence: it is not checked");
        record.checks = judge_run(prepared_.scenario, record);
        record.verdict = verdict_sentence(record);
        return record;
    }

    const PreparedRun& prepared_;
    WorkerPool& pool_;
    Interruption& interruption_;
    WorkOrder order_;
    Conductor conductor_;
    std::deque<Observed> observed_;
    std::uint32_t observed_second_ = 0;
    LiveView live_;
    std::chrono::system_clock::time_point started_;
    Time next_show_{};
};

}  // namespace

RunRecord carry_out(const PreparedRun& run, WorkerPool& pool, Interruption& interruption) {
    return Run(run, pool, interruption).carry_out();
}

}  // namespace pulsegate::load
