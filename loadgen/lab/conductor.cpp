#include "loadgen/lab/conductor.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <cmath>
#include <exception>
#include <utility>

#include "loadgen/lab/frames.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

/// An order is sent this long in advance, so that it reaches the last worker before it is due.
constexpr Duration head_start = 200ms;

constexpr Duration patience_of_preparing = 60s;
constexpr Duration patience_of_totals = 120s;

/// Workers report every second. One that says nothing for so long is stuck, or its machine is gone.
constexpr Duration longest_silence = 30s;

/// Sources of the series below it are workers.
constexpr std::uint32_t first_observer = 1U << 31;

/// How long to go on for silent clients that should have been closed, for storms and for hostile
/// clients.
constexpr Duration grace_of_running = 5s;

/// Wait for duplicates even when every message has arrived.
constexpr Duration settle_time = 500ms;

/// Marks with the same text that several workers set within this many seconds are one event.
constexpr double one_event = 60;

constexpr std::size_t most_examples = 50;
constexpr std::size_t most_notes = 100;
constexpr std::size_t most_marks = 500;

Duration ramp_time(const Scenario& scenario) {
    Duration longest{};
    for (const Group& group : scenario.groups)
        if (group.starts == Duration::zero())
            longest = std::max(longest, from_seconds(group.clients / group.ramp));
    return longest;
}

/// A server that is slow to accept clients makes the ramp longer, but not beyond this.
Duration patience_of_ramp(const Scenario& scenario) { return 3 * ramp_time(scenario) + 120s; }

/// The phase that a worker's message ends; nothing if there is no such message.
std::optional<Conductor::Phase> phase_answered_by(std::string_view type) {
    using Phase = Conductor::Phase;
    if (type == "ready") return Phase::preparing;
    if (type == "ramped") return Phase::ramping;
    if (type == "settled") return Phase::running;
    if (type == "drained") return Phase::draining;
    if (type == "flows-sent") return Phase::totalling;
    if (type == "done") return Phase::judging;
    return {};
}

std::string text_of(const json::object& message, const char* key) {
    const auto* value = message.if_contains(key);
    return value && value->is_string() ? json::value_to<std::string>(*value) : std::string();
}

}  // namespace

Conductor::Conductor(const Scenario& scenario, std::vector<std::string> workers, Outlet outlet,
                     Time now)
    : scenario_(scenario), outlet_(std::move(outlet)), phase_begun_(now) {
    for (auto& name : workers) workers_.push_back({std::move(name), false, now, {}});
}

// -- what workers say --

void Conductor::heard(std::uint32_t worker, const json::object& message, Time now) try {
    if (phase_ == Phase::over) return;
    Worker& from = workers_.at(worker);
    from.last_heard = now;
    const auto type = text_of(message, "type");
    if (type == "sample") {
        from.last_sample = now;
        return take_sample(worker, message);
    }
    if (type == "mark")
        return set_mark(message.at("at").to_number<double>(), text_of(message, "text"));
    if (type == "error") return fail(fmt::format("{}: {}", from.name, text_of(message, "text")));

    const auto answered_phase = phase_answered_by(type);
    if (!answered_phase)
        return fail(fmt::format(
            "{} sent '{}', which the coordinator does not know; is it of another version?",
            from.name, type));
    if (*answered_phase != phase_) return;  // it comes too late
    from.answered = true;
    if (type == "done") {
        take_texts(message, "examples", examples_);
        take_texts(message, "notes", notes_);
    }
    tick(now);
} catch (const std::exception& error) {
    fail(fmt::format("{} sent a message that can't be understood ({}); is it of another version?",
                     workers_.at(worker).name, error.what()));
}

void Conductor::take_sample(std::uint32_t worker, const json::object& message) {
    for (const auto& each : message.at("seconds").as_array()) {
        const auto& second = each.as_object();
        const auto measured = measurements_from(second.at("measurements"));
        series_.add(second.at("second").to_number<std::uint32_t>(), measured, worker);
        totals_.merge(measured);
    }
}

void Conductor::take_texts(const json::object& message, const char* key,
                           std::vector<std::string>& into) {
    const auto* texts = message.if_contains(key);
    if (!texts) return;
    const std::size_t most = &into == &examples_ ? most_examples : most_notes;
    for (const auto& each : texts->as_array()) {
        auto text = json::value_to<std::string>(each);
        const bool is_new = std::ranges::find(into, text) == into.end();  // several workers say it
        if (is_new && into.size() < most) into.push_back(std::move(text));
    }
}

void Conductor::heard_flows(std::uint32_t worker, std::string_view body) {
    if (phase_ != Phase::totalling) return;
    const auto receiver = receiver_of(body);
    if (!receiver || *receiver >= workers_.size())
        return fail(fmt::format("{} sent totals for a worker that does not exist",
                                workers_.at(worker).name));
    outlet_.forward(*receiver, body);
}

void Conductor::lost(std::uint32_t worker, const std::string& cause) {
    if (phase_ == Phase::over) return;
    fail(fmt::format("{} {}: its clients are gone, so the run says nothing about the server",
                     workers_.at(worker).name, cause));
}

void Conductor::interrupt(Time now) {
    if (std::exchange(interrupted_, true)) return;
    if (phase_ == Phase::preparing) return fail("interrupted before the first client connected");
    if (phase_ != Phase::ramping && phase_ != Phase::running) return;
    drain(now);
}

void Conductor::fail(std::string cause) {
    if (phase_ == Phase::over) return;
    failure_ = std::move(cause);
    phase_ = Phase::over;
    tell_all(json::object{{"type", "end"}});
}

// -- the phases --

void Conductor::enter(Phase next, Time now) {
    phase_ = next;
    phase_begun_ = now;
    for (Worker& worker : workers_) worker.answered = false;
}

void Conductor::start(Time now) {
    enter(Phase::ramping, now);
    begun_ = now + head_start;
    tell_all("start", *begun_);
}

void Conductor::go(Time now) {
    enter(Phase::running, now);
    set_mark(seconds_since_start(now + head_start), marks::go);
    tell_all("go", now + head_start);
}

void Conductor::drain(Time now) {
    enter(Phase::draining, now);
    set_mark(seconds_since_start(now), marks::drain);
    tell_all(json::object{{"type", interrupted_ ? "stop" : "drain"}});
}

void Conductor::ask_for_totals(Time now) {
    enter(Phase::totalling, now);
    tell_all(json::object{{"type", "flows"}});
}

void Conductor::judge_messages(Time now) {
    enter(Phase::judging, now);
    tell_all(json::object{{"type", "judge"}});
}

void Conductor::tick(Time now) {
    if (phase_ == Phase::over) return;
    fail_if_silent(now);
    switch (phase_) {
        case Phase::preparing:
            if (all_answered()) return start(now);
            return fail_if_late(now, patience_of_preparing, "getting ready");
        case Phase::ramping:
            if (all_answered()) return go(now);
            if (elapsed(now) < patience_of_ramp(scenario_)) return;
            note(
                fmt::format("after {} not all clients were in or refused; the measured part began "
                            "without them",
                            show(elapsed(now))));
            return go(now);
        case Phase::running: return tick_running(now);
        case Phase::draining: return tick_draining(now);
        case Phase::totalling:
            if (all_answered()) return judge_messages(now);
            return fail_if_late(now, patience_of_totals, "adding up its messages");
        case Phase::judging:
            if (!all_answered())
                return fail_if_late(now, patience_of_totals, "judging its messages");
            phase_ = Phase::over;
            return tell_all(json::object{{"type", "end"}});
        case Phase::over: return;
    }
}

void Conductor::tick_running(Time now) {
    const Duration planned = scenario_.duration + head_start;
    if (elapsed(now) < planned) return;
    Duration most = std::max(planned, scenario_.settled_after() + head_start + grace_of_running);
    for (const Group& group : scenario_.groups)
        if (group.storm)
            most = std::max(
                most, group.storm_after + scenario_.storm_within + head_start + grace_of_running);
    if (all_answered() || elapsed(now) >= most) drain(now);
}

void Conductor::tick_draining(Time now) {
    if (elapsed(now) >= scenario_.drain || everything_arrived(now)) ask_for_totals(now);
}

// True if all messages have arrived. This is not known if messages go to rooms, because such a
// message arrives more than once.
bool Conductor::everything_arrived(Time now) const {
    if (!all_answered() || elapsed(now) < settle_time) return false;
    for (const Group& group : scenario_.groups)
        if (group.messages > 0 && group.to_what == Group::To::rooms) return false;
    for (const Worker& worker : workers_)
        if (worker.last_sample < phase_begun_ + settle_time) return false;
    return totals_[Count::messages_received] >= totals_[Count::messages_sent];
}

void Conductor::fail_if_late(Time now, Duration patience, const char* what) {
    if (elapsed(now) > patience)
        fail(fmt::format("{} did not finish {} within {}", who_is_missing(), what, show(patience)));
}

void Conductor::fail_if_silent(Time now) {
    for (const Worker& worker : workers_)
        if (phase_ != Phase::preparing && now - worker.last_heard > longest_silence)
            return fail(fmt::format("{} has said nothing for {}; is its machine overloaded?",
                                    worker.name, show(now - worker.last_heard)));
}

// -- the rest --

void Conductor::tell_all(const char* type, Time at) {
    tell_all(json::object{{"type", type}, {"at", at.time_since_epoch().count()}});
}

void Conductor::tell_all(const json::object& message) {
    for (std::uint32_t worker = 0; worker < workers_.size(); ++worker)
        outlet_.tell(worker, message);
}

bool Conductor::all_answered() const { return std::ranges::all_of(workers_, &Worker::answered); }

std::string Conductor::who_is_missing() const {
    std::string names;
    for (const Worker& worker : workers_)
        if (!worker.answered) names += (names.empty() ? "" : ", ") + worker.name;
    return names;
}

// Several workers report the same storm.
void Conductor::set_mark(double at, std::string_view text) {
    const auto same = [&](const Mark& mark) {
        return mark.text == text && std::abs(mark.at - at) < one_event;
    };
    const auto known = std::ranges::find_if(marks_, same);
    if (known == marks_.end()) {
        if (marks_.size() < most_marks) marks_.push_back({at, std::string(text)});
        return;
    }
    // A storm begins with the first worker and is over with the last one.
    known->at =
        text.starts_with(marks::storm_over) ? std::max(known->at, at) : std::min(known->at, at);
}

double Conductor::seconds_since_start(Time now) const {
    return begun_ ? std::max(0.0, seconds(now - *begun_)) : 0;
}

void Conductor::add(Time moment, const Measurements& measurements, std::uint32_t observer) {
    if (begun_ && moment >= *begun_)
        series_.add(static_cast<std::uint32_t>(seconds_since_start(moment)), measurements,
                    first_observer + observer);
}

Duration Conductor::length() const {
    switch (phase_) {
        case Phase::ramping: return ramp_time(scenario_);
        case Phase::running: return std::max(scenario_.duration, scenario_.settled_after());
        case Phase::draining: return scenario_.drain;
        default: return {};
    }
}

}  // namespace pulsegate::load
