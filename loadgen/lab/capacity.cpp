#include "loadgen/lab/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "loadgen/lab/coordinator.h"
#include "loadgen/report/checks.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace json = boost::json;

namespace {

/// The pause between trials, in which the server can finish with the clients of the last one.
constexpr auto rest = std::chrono::seconds(2);

std::string_view name_of(TrialOutcome outcome) {
    switch (outcome) {
        case TrialOutcome::held: return "held";
        case TrialOutcome::broke: return "broke";
        case TrialOutcome::refused: return "refused";
    }
    return {};
}

std::string_view name_of(CapacitySearch::Verdict::Kind kind) {
    using Kind = CapacitySearch::Verdict::Kind;
    switch (kind) {
        case Kind::found: return "found";
        case Kind::refused: return "refused";
        case Kind::unlimited: return "unlimited";
        case Kind::nothing: return "nothing";
        case Kind::unfinished: return "unfinished";
    }
    return {};
}

double packets_a_second(const RunRecord& record) {
    const auto part = record.measured();
    if (part.length() <= 0) return 0;
    const auto measured = between(record.series, part.from, part.to);
    return static_cast<double>(measured[Count::packets_sent]) / part.length();
}

/// A trial only shows how much load the server holds. So it is shorter than the scenario, all
/// clients are there from the start, and there are no silent clients, because judging them takes
/// long. The user's settings come later in the list and take precedence.
void shorten(RunRequest& request) {
    request.overrides.insert(request.overrides.begin(),
                             {read_override("duration=20s"), read_override("starts=0s"),
                              read_override("silent=0%"), read_override("hostile-after=0s")});
}

bool makes_sense(RunRequest request, double scale) {
    request.scale *= scale;
    try {
        (void)parse_scenario(request.text, request.overrides, request.scale);
        return true;
    } catch (const std::runtime_error&) {
        return false;
    }
}

/// The smallest scale of the search. Below it, the scenario would not be valid, for example because
/// a client would have nobody to write to.
double least_scale(const RunRequest& request, const CapacitySearch::Settings& search) {
    double least = search.first;
    while (least > search.least) {
        const double lower = std::max(least / search.factor, search.least);
        if (!makes_sense(request, lower)) break;
        least = lower;
    }
    return least;
}

/// Makes the trials comparable: each is a multiple of the same load.
CapacityRequest settled(CapacityRequest request, const MachineLimits& limits) {
    if (const auto note = lower_clients(request.run, limits); !note.empty())
        fmt::print(stderr, "note: {}\n", note);
    shorten(request.run);
    request.search.least = least_scale(request.run, request.search);
    return request;
}

bool accepts_connections(const Target& target) {
    try {
        for (const ServerAddress& server : target.servers) (void)find_server(server);
        return true;
    } catch (const std::runtime_error&) {
        return false;
    }
}

void judge(Trial& trial, const Objectives& objectives, const Scenario& scenario,
           const RunRecord& record) {
    trial.clients = record.clients;
    trial.packets = packets_a_second(record);
    if (const auto why = bottleneck(record)) {
        trial.outcome = TrialOutcome::refused;
        trial.reason = *why;
        return;
    }
    const auto missed = misses(objectives, scenario, record);
    trial.outcome = missed.empty() ? TrialOutcome::held : TrialOutcome::broke;
    for (const Miss& miss : missed)
        trial.reason +=
            fmt::format("{}{} ({})", trial.reason.empty() ? "" : ", then ", miss.name, miss.detail);
}

std::string load_of(const Trial& trial) {
    return fmt::format("{} clients at {} packets a second", show_count(trial.clients),
                       show_count(static_cast<std::uint64_t>(std::llround(trial.packets))));
}

void carry_out_trial(Trial& trial, const CapacityRequest& request, WorkerPool* remote,
                     const MachineLimits& limits, Interruption& interruption) {
    auto wanted = request.run;
    wanted.scale *= trial.scale;
    try {
        const PreparedRun run = prepare(std::move(wanted), limits);
        auto own = remote ? WorkerPool() : WorkerPool::of_processes(run.layout.workers);
        const auto record = carry_out(run, remote ? *remote : own, interruption);
        if (record.interrupted) throw Interrupted("interrupted");
        judge(trial, request.objectives, run.scenario, record);
    } catch (const LimitError& limit) {
        trial.reason = limit.what();
    }
}

void tell_user(const Trial& trial) {
    fmt::print(stderr, "scale {:.3g}: {} {}{}{}\n", trial.scale,
               trial.clients > 0 ? load_of(trial) : "not run", name_of(trial.outcome),
               trial.reason.empty() ? "" : ": ", trial.reason);
}

const Trial* last_at(const std::vector<Trial>& trials, double scale, TrialOutcome outcome) {
    for (auto trial = trials.rbegin(); trial != trials.rend(); ++trial)
        if (trial->scale == scale && trial->outcome == outcome) return &*trial;
    return nullptr;
}

/// The lowest scale above `held` at which the generator was the bottleneck.
const Trial* lowest_refused(const std::vector<Trial>& trials, double held) {
    const Trial* lowest = nullptr;
    for (const Trial& trial : trials)
        if (trial.outcome == TrialOutcome::refused && trial.scale > held &&
            (!lowest || trial.scale < lowest->scale))
            lowest = &trial;
    return lowest;
}

std::string trials_text(const CapacitySearch::Verdict& verdict) {
    auto text = fmt::format("{} trial{}", verdict.trials, verdict.trials == 1 ? "" : "s");
    if (verdict.refused > 0)
        text += fmt::format(", {} of them refused; a refused load is tried again", verdict.refused);
    return text;
}

}  // namespace

std::string CapacityResult::sentence() const {
    using Kind = CapacitySearch::Verdict::Kind;
    const auto* held = last_at(trials, verdict.holds, TrialOutcome::held);
    const auto* broke = last_at(trials, verdict.breaks, TrialOutcome::broke);
    const auto confidence =
        fmt::format("confidence {:.0f} %, {}", verdict.confidence * 100, trials_text(verdict));
    const auto holds = held ? "this machine holds " + load_of(*held) : "this machine holds nothing";
    switch (verdict.kind) {
        case Kind::found:
            return fmt::format("{}; at {} clients broke first: {} ({})", holds,
                               broke ? show_count(broke->clients) : "more",
                               broke ? broke->reason : "unknown", confidence);
        case Kind::unlimited:
            return fmt::format("{}, the most that was tried: raise --most ({})", holds, confidence);
        case Kind::nothing:
            return fmt::format("{} of this scenario: at {} broke first: {} ({})", holds,
                               broke ? load_of(*broke) : "the least",
                               broke ? broke->reason : "unknown", confidence);
        case Kind::refused: {
            const auto* limit = lowest_refused(trials, verdict.holds);
            auto text = std::string("no verdict: ");
            if (held) text += holds + " and perhaps more; beyond that ";
            text += fmt::format("the generator or its machine was the bottleneck: {}",
                                limit ? limit->reason : "unknown");
            if (broke)
                text += fmt::format("; at {} broke first: {}", load_of(*broke), broke->reason);
            return fmt::format("{} ({})", text, trials_text(verdict));
        }
        case Kind::unfinished: {
            auto text = fmt::format("no verdict: {} after {} trial{}", ended, trials.size(),
                                    trials.size() == 1 ? "" : "s");
            if (held) text += "; " + holds;
            if (broke) text += fmt::format("; broke at {}: {}", load_of(*broke), broke->reason);
            return text;
        }
    }
    return {};
}

std::string CapacityResult::json() const {
    boost::json::array tried;
    for (const Trial& trial : trials)
        tried.push_back(boost::json::object{{"scale", trial.scale},
                                            {"outcome", name_of(trial.outcome)},
                                            {"clients", trial.clients},
                                            {"packets", trial.packets},
                                            {"reason", trial.reason}});
    const boost::json::object all{
        {"verdict", name_of(verdict.kind)}, {"sentence", sentence()},
        {"interrupted", interrupted},       {"holds", verdict.holds},
        {"breaks", verdict.breaks},         {"confidence", verdict.confidence},
        {"refused", verdict.refused},       {"trials", std::move(tried)}};
    return boost::json::serialize(all) + "\n";
}

int CapacityResult::exit_status() const {
    if (interrupted) return Interruption::exit_status;
    switch (verdict.kind) {
        case CapacitySearch::Verdict::Kind::nothing: return EXIT_FAILURE;
        case CapacitySearch::Verdict::Kind::refused: return refused_status;
        case CapacitySearch::Verdict::Kind::unfinished:
            return failed ? EXIT_FAILURE : refused_status;
        default: return EXIT_SUCCESS;
    }
}

CapacityResult measure_capacity(const CapacityRequest& asked, WorkerPool* remote,
                                const MachineLimits& limits, Interruption& interruption) {
    CapacityResult result;
    const auto request = settled(asked, limits);
    CapacitySearch search(request.search);
    while (const auto scale = result.ended.empty() ? search.next() : std::nullopt) {
        if (!result.trials.empty()) std::this_thread::sleep_for(rest);
        Trial trial;
        trial.scale = *scale;
        try {
            carry_out_trial(trial, request, remote, limits, interruption);
        } catch (const Interrupted&) {
            result.interrupted = true;
            result.ended = "interrupted";
            break;
        } catch (const std::runtime_error& failure) {
            // Keeps the results of the earlier trials.
            if (result.trials.empty()) throw;
            trial.reason = failure.what();
            result.ended = fmt::format("a run failed ({})", failure.what());
            result.failed = true;
        }
        if (!accepts_connections(request.run.target)) {
            trial.outcome = TrialOutcome::broke;
            trial.reason = "the server no longer accepts connections";
            result.ended = "the server was gone";
            result.failed = true;
        }
        tell_user(trial);
        search.tell(*scale, trial.outcome);
        result.trials.push_back(std::move(trial));
    }
    result.verdict = search.verdict();
    if (result.interrupted) result.verdict.kind = CapacitySearch::Verdict::Kind::unfinished;
    if (result.ended.empty()) result.ended = "--trials allowed no more";
    return result;
}

}  // namespace pulsegate::load
