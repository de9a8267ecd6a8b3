#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/measure/measurements.h"
#include "loadgen/report/record.h"
#include "loadgen/report/series.h"
#include "loadgen/scenario/scenario.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// Leads the workers of a run through its phases, merges their reports, and passes messages between
/// them. It knows neither sockets nor a clock. Each phase ends in a bounded time.
class Conductor {
public:
    enum class Phase { preparing, ramping, running, draining, totalling, judging, over };

    /// The conductor's connection to its workers.
    struct Outlet {
        std::function<void(std::uint32_t worker, const boost::json::object& message)> tell;
        std::function<void(std::uint32_t worker, std::string_view flows)> forward;
    };

    /// `workers` are the workers' names in error messages. The workers have their plans, and
    /// prepare.
    Conductor(const Scenario& scenario, std::vector<std::string> workers, Outlet outlet, Time now);

    void heard(std::uint32_t worker, const boost::json::object& message, Time now);
    void heard_flows(std::uint32_t worker, std::string_view body);
    void lost(std::uint32_t worker, const std::string& cause);
    void interrupt(Time now);

    /// Call it several times a second.
    void tick(Time now);

    /// The measurements of one observer.
    void add(Time moment, const Measurements& measurements, std::uint32_t observer = 0);
    void note(std::string text) { notes_.push_back(std::move(text)); }

    Phase phase() const { return phase_; }
    Duration elapsed(Time now) const { return now - phase_begun_; }
    Duration length() const;  ///< length of this phase, if it is known

    /// Why the run has no result about the server; empty: it has one.
    const std::string& failure() const { return failure_; }
    bool interrupted() const { return interrupted_; }

    const Series& series() const { return series_; }
    const Measurements& totals() const { return totals_; }
    const std::vector<Mark>& marks() const { return marks_; }
    const std::vector<std::string>& examples() const { return examples_; }
    const std::vector<std::string>& notes() const { return notes_; }

    /// From the beginning of the ramp; 0 before it.
    double seconds_since_start(Time now) const;

private:
    struct Worker {
        std::string name;
        bool answered = false;  ///< what this phase waits for
        Time last_heard{};
        Time last_sample{};
    };

    void enter(Phase next, Time now);
    void tell_all(const char* type, Time now);
    void tell_all(const boost::json::object& message);
    bool all_answered() const;
    std::string who_is_missing() const;
    void fail(std::string cause);
    void take_sample(std::uint32_t worker, const boost::json::object& message);
    void take_texts(const boost::json::object& message, const char* key,
                    std::vector<std::string>& into);

    void set_mark(double at, std::string_view text);

    void start(Time now);
    void go(Time now);
    void drain(Time now);
    void ask_for_totals(Time now);
    void judge_messages(Time now);

    void tick_running(Time now);
    void tick_draining(Time now);
    void fail_if_late(Time now, Duration patience, const char* what);
    void fail_if_silent(Time now);
    bool everything_arrived(Time now) const;

    const Scenario scenario_;
    std::vector<Worker> workers_;
    Outlet outlet_;
    Phase phase_ = Phase::preparing;
    Time phase_begun_;
    std::optional<Time> begun_;
    std::string failure_;
    bool interrupted_ = false;

    Series series_;
    Measurements totals_;
    std::vector<Mark> marks_;
    std::vector<std::string> examples_;
    std::vector<std::string> notes_;
};

}  // namespace pulsegate::load
