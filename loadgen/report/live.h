#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/report/series.h"
#include "loadgen/scenario/scenario.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The progress of a run.
struct LiveState {
    enum class Phase : std::uint8_t { connecting, running, draining, judging };

    Phase phase = Phase::connecting;
    Duration elapsed{};  ///< of this phase
    Duration length{};   ///< of this phase; zero: unknown
    double second = 0;   ///< since the start of the run
    const Scenario* scenario = nullptr;
    const Series* series = nullptr;
    const Measurements* totals = nullptr;  ///< so far
};

struct Terminal {
    bool interactive = false;  ///< its lines can be repainted
    bool colors = false;
    unsigned columns = 80;

    /// The properties of standard error. NO_COLOR and TERM=dumb are respected.
    static Terminal of_stderr();
};

/// The lines of the view, none longer than the terminal is wide.
std::vector<std::string> live_lines(const LiveState& state, const Terminal& terminal);

/// One line without colours, for logs.
std::string live_line(const LiveState& state);

/// Shows the progress of a run on standard error: repainted on a terminal, otherwise one line every
/// 5 s.
class LiveView {
public:
    explicit LiveView(Terminal terminal = Terminal::of_stderr());
    ~LiveView();
    LiveView(const LiveView&) = delete;

    /// Ten calls a second are enough.
    void show(const LiveState& state, Time now);

    /// Leaves the view as it is, and prints a line below it.
    void print(std::string_view line);

private:
    void erase();

    const Terminal terminal_;
    std::size_t painted_ = 0;  ///< number of lines on the terminal that will be repainted
    LiveState::Phase phase_ = LiveState::Phase::connecting;
    Time next_line_{};
};

}  // namespace pulsegate::load
