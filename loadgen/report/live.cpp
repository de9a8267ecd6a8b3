#include "loadgen/report/live.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "loadgen/report/judging.h"
#include "loadgen/report/labels.h"
#include "loadgen/report/table.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

using Phase = LiveState::Phase;

constexpr Duration plain_line_every = std::chrono::seconds(5);
constexpr std::uint32_t recent_seconds = 3;  // the seconds that percentiles cover

const char* phase_name(Phase phase) {
    switch (phase) {
        case Phase::connecting: return "connecting";
        case Phase::running: return "running";
        case Phase::draining: return "draining";
        case Phase::judging: break;
    }
    return "judging";
}

// -- drawing

enum class Paint : std::uint8_t { plain, faint, good, bad, accent };

std::string painted(std::string text, Paint paint, const Terminal& terminal) {
    constexpr std::array codes{"", "2", "32", "1;31", "36"};
    if (!terminal.colors || paint == Paint::plain || text.empty()) return text;
    return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(paint)], text);
}

/// A bar, drawn in eighths of a column.
std::string live_bar(double fraction, std::size_t width) {
    constexpr std::array parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto eighths = static_cast<std::size_t>(
        std::lround(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(width) * 8));
    std::string text;
    for (std::size_t at = 0; at < eighths / 8; ++at) text += "█";
    if (eighths % 8 > 0) text += parts[eighths % 8];
    for (std::size_t at = (eighths + 7) / 8; at < width; ++at) text += "·";
    return text;
}

/// Columns as high as their counts: the highest one fills its line.
std::string columns_text(const std::vector<std::uint64_t>& counts) {
    constexpr std::array heights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const auto most = counts.empty() ? 0 : *std::ranges::max_element(counts);
    std::string text;
    for (const auto count : counts)
        text += count == 0 ? "·" : heights[(count * heights.size() - 1) / most];
    return text;
}

std::string cut_to(const std::string& text, std::size_t columns) {
    std::size_t width = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
        if (width++ == columns) return text.substr(0, at);
    }
    return text;
}

// -- what there is to say

/// The measurements of the last complete seconds.
Measurements last_seconds(const LiveState& state) {
    const auto latest = state.series->latest();
    const auto first = latest >= recent_seconds ? latest - recent_seconds : 0;
    return state.series->recent(first, latest > 0 ? latest - 1 : 0);
}

std::uint32_t seconds_in(const LiveState& state) {
    return std::clamp(state.series->latest(), 1U, recent_seconds);
}

std::string rate_in(const LiveState& state, const Measurements& recent, Count count) {
    return show_rate(static_cast<double>(recent[count]) / seconds_in(state));
}

/// The progress of this phase. In the ramp, it is the share of connected clients, because the
/// length of the ramp is not known.
double progress(const LiveState& state) {
    if (state.phase == Phase::connecting)
        return static_cast<double>((*state.totals)[Count::entered]) /
               std::max(1U, state.scenario->clients());
    if (state.length <= Duration::zero()) return state.phase == Phase::judging ? 1 : 0;
    return seconds(state.elapsed) / seconds(state.length);
}

std::string clock_text(const LiveState& state) {
    if (state.length <= Duration::zero()) return fmt::format("{:.0f} s", seconds(state.elapsed));
    return fmt::format("{:.0f} of {:.0f} s", seconds(state.elapsed),
                       seconds(std::max(state.length, state.elapsed)));
}

std::string clients_text(const LiveState& state, const Measurements& recent) {
    std::string text = fmt::format("{} of {} in", show_count((*state.totals)[Count::entered]),
                                   show_count(state.scenario->clients()));
    const auto level = [&](Gauge gauge, const char* what) {
        if (recent[gauge] >= 0.5)
            text += fmt::format(", {} {}",
                                show_count(static_cast<std::uint64_t>(std::llround(recent[gauge]))),
                                what);
    };
    level(Gauge::clients_open, "open");
    level(Gauge::clients_silent, "silent");
    level(Gauge::clients_away, "away");
    level(Gauge::clients_waiting, "waiting to try again");
    return text;
}

std::string rates_text(const LiveState& state, const Measurements& recent) {
    return fmt::format("packets {} sent, {} received, messages {}, pings {}",
                       rate_in(state, recent, Count::packets_sent),
                       rate_in(state, recent, Count::packets_received),
                       rate_in(state, recent, Count::messages_sent),
                       rate_in(state, recent, Count::pings_sent));
}

std::string times_text(const Measurements& recent) {
    std::string text;
    for (const auto timing : {Timing::message, Timing::ping, Timing::login}) {
        const auto& times = recent[timing];
        if (times.empty()) continue;
        text += fmt::format("{}{} p50 {}, p99 {}, max {}", text.empty() ? "" : "; ",
                            info(timing).name, show(times.percentile(0.5)),
                            show(times.percentile(0.99)), show(times.max()));
    }
    return text;
}

std::string load_text(const Measurements& recent) {
    std::string text;
    const auto add = [&](Gauge gauge, auto show_level) {
        if (recent[gauge] >= 0) text += (text.empty() ? "" : ", ") + show_level(recent[gauge]);
    };
    add(Gauge::server_cpu, [](double cores) { return "server " + show_cores(cores); });
    add(Gauge::server_memory, [](double bytes) { return show_bytes(bytes); });
    add(Gauge::server_loop_lag, [](double lag) { return "loop lag " + show(from_seconds(lag)); });
    add(Gauge::worker_cpu, [](double cores) { return "generator " + show_cores(cores); });
    return text;
}

/// One column for each second until the limit: how many silent clients are due to be closed in that
/// second. The timing wheel of a server that keeps its promise looks like this.
std::vector<std::uint64_t> wheel_of(const LiveState& state) {
    const auto limit = static_cast<std::uint32_t>(
        std::ceil(seconds(limits_of(*state.scenario).most + closing_tick)));
    const auto now = static_cast<std::uint32_t>(state.second);
    std::vector<std::uint64_t> due;
    for (std::uint32_t left = 0; left <= limit; ++left) {
        const auto fell_silent = now + left;  // a limit ago
        due.push_back(fell_silent < limit ? 0
                                          : state.series->at(fell_silent - limit)[Count::silent]);
    }
    return due;
}

struct Trouble {
    Count count;
    const char* what;
};
constexpr std::array troubles{
    Trouble{Count::false_offline, "false offline"},
    Trouble{Count::connect_failed, "failed to connect"},
    Trouble{Count::violations, "violations of the protocol"},
    Trouble{Count::session_lost, "sessions lost"},
    Trouble{Count::closed_early, "closed early"},
    Trouble{Count::closed_late, "closed late"},
    Trouble{Count::never_closed, "never closed"},
    Trouble{Count::messages_lost, "lost"},
    Trouble{Count::messages_repeated, "repeated"},
    Trouble{Count::messages_repeated_qos2, "repeated at QoS 0 or 2"},
    Trouble{Count::messages_reordered, "reordered"},
    Trouble{Count::messages_misdirected, "misdirected"},
    Trouble{Count::messages_damaged, "damaged"},
    Trouble{Count::messages_forged, "with a wrong sender"},
    Trouble{Count::messages_late, "messages late"},
    Trouble{Count::acknowledged_late, "acknowledged late"},
    Trouble{Count::pings_late, "pings late"},
    Trouble{Count::presence_false_offline, "shown offline though alive"},
    Trouble{Count::presence_ghosts, "ghosts"},
    Trouble{Count::presence_out_of_order, "presence out of order"},
    Trouble{Count::presence_contradicted, "presence contradicted"},
    Trouble{Count::starved, "starved by the generator"},
};

std::string troubles_text(const Measurements& totals) {
    Enumeration text;
    for (const auto& [count, what] : troubles) text.add(totals[count], what);
    return text.text();
}

/// The lines of a view; each is cut to the terminal's width before it is coloured.
class Canvas {
public:
    explicit Canvas(const Terminal& terminal) : terminal_(terminal) {}

    void row(const char* label, const std::string& text, Paint paint = Paint::plain) {
        if (text.empty()) return;
        lines_.push_back(painted(padded_right(label, label_width), Paint::faint, terminal_) +
                         painted(cut_to(text, room()), paint, terminal_));
    }

    std::size_t room() const {
        return std::max<std::size_t>(terminal_.columns, label_width + 10) - label_width - 1;
    }

    std::vector<std::string> take() && { return std::move(lines_); }

private:
    static constexpr std::size_t label_width = 12;

    const Terminal& terminal_;
    std::vector<std::string> lines_;
};

}  // namespace

Terminal Terminal::of_stderr() {
    Terminal terminal;
    const auto text_of = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string_view(value ? value : "");
    };
    const bool dumb = text_of("TERM") == "dumb";
    terminal.interactive = isatty(STDERR_FILENO) != 0 && !dumb;
    terminal.colors = terminal.interactive && text_of("NO_COLOR").empty();
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        terminal.columns = size.ws_col;
    return terminal;
}

std::vector<std::string> live_lines(const LiveState& state, const Terminal& terminal) {
    const auto recent = last_seconds(state);
    Canvas canvas(terminal);
    const auto clock = "  " + clock_text(state);
    const auto used = columns_of(clock) + 2;
    canvas.row(phase_name(state.phase),
               live_bar(progress(state), canvas.room() > used ? canvas.room() - used : 0) + clock,
               Paint::accent);
    canvas.row("clients", clients_text(state, recent));
    canvas.row("rates", rates_text(state, recent));
    canvas.row("times", times_text(recent));
    canvas.row("load", load_text(recent));
    if (recent[Gauge::clients_silent] >= 0.5)
        canvas.row("wheel", columns_text(wheel_of(state)) + "  silent clients by seconds left",
                   Paint::accent);
    const auto trouble = troubles_text(*state.totals);
    canvas.row("so far", trouble.empty() ? "nothing wrong" : trouble,
               trouble.empty() ? Paint::good : Paint::bad);
    return std::move(canvas).take();
}

std::string live_line(const LiveState& state) {
    const auto recent = last_seconds(state);
    std::string text = fmt::format("{:<10} {}, {}", phase_name(state.phase), clock_text(state),
                                   clients_text(state, recent));
    if (state.phase == Phase::running) {
        text += ", packets " + rate_in(state, recent, Count::packets_sent);
        if (const auto& times = recent[Timing::message]; !times.empty())
            text += ", message p99 " + show(times.percentile(0.99));
    }
    const auto trouble = troubles_text(*state.totals);
    return trouble.empty() ? text : text + "; " + trouble;
}

LiveView::LiveView(Terminal terminal) : terminal_(terminal) {}

LiveView::~LiveView() { std::fflush(stderr); }

void LiveView::show(const LiveState& state, Time now) {
    if (!terminal_.interactive) {
        if (now < next_line_ && state.phase == phase_) return;
        fmt::print(stderr, "{}\n", live_line(state));
        phase_ = state.phase;
        next_line_ = now + plain_line_every;
        return;
    }
    const auto lines = live_lines(state, terminal_);
    erase();
    for (const auto& line : lines) fmt::print(stderr, "{}\n", line);
    std::fflush(stderr);
    painted_ = lines.size();
}

void LiveView::print(std::string_view line) {
    painted_ = 0;
    fmt::print(stderr, "{}\n", line);
}

/// Moves to the first line of the view, and erases the view.
void LiveView::erase() {
    if (painted_ > 0) fmt::print(stderr, "\x1b[{}A\x1b[J", painted_);
    painted_ = 0;
}

}  // namespace pulsegate::load
