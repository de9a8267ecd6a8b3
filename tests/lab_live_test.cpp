#include <doctest/doctest.h>

#include "loadgen/report/live.h"
#include "loadgen/report/table.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

/// 100 clients in their 12th second; ten of them fell silent in second 2.
struct LiveRun {
    Scenario scenario;
    Series series;
    Measurements totals;
    LiveState state;

    LiveRun() {
        Group group;
        group.clients = 100;
        scenario.groups.push_back(group);
        for (std::uint32_t second = 0; second < 12; ++second) {
            Measurements measured;
            measured.add(Count::packets_sent, 50);
            measured.add(Timing::message, 300us);
            if (second == 2) measured.add(Count::silent, 10);
            measured.set(Gauge::clients_open, 100);
            measured.set(Gauge::clients_silent, second < 2 ? 0 : 10);
            series.add(second, measured);
            totals.merge(measured);
        }
        totals.add(Count::entered, 100);
        state = {LiveState::Phase::running, 6s, 24s, 12, &scenario, &series, &totals};
    }

    std::string text(const Terminal& terminal) const {
        std::string all;
        for (const auto& line : live_lines(state, terminal)) all += line + "\n";
        return all;
    }
};

}  // namespace

TEST_CASE_FIXTURE(LiveRun, "the view says where the run is and what it measures") {
    const auto view = text({true, false, 120});
    CHECK(view.find("6 of 24 s") != std::string::npos);
    CHECK(view.find("100 of 100 in, 100 open, 10 silent") != std::string::npos);
    CHECK(view.find("packets 50/s sent") != std::string::npos);
    CHECK(view.find("message p50 300 µs, p99 300 µs") != std::string::npos);
    CHECK(view.find("nothing wrong") != std::string::npos);
}

TEST_CASE_FIXTURE(LiveRun, "troubles are counted as soon as they are seen") {
    totals.add(Count::messages_lost, 3);
    CHECK(text({true, false, 120}).find("3 lost") != std::string::npos);
    CHECK(live_line(state).find("; 3 lost") != std::string::npos);
}

TEST_CASE_FIXTURE(LiveRun, "no line is wider than the terminal") {
    for (const unsigned columns : {30U, 50U, 80U, 200U}) {
        CAPTURE(columns);
        for (const auto& line : live_lines(state, {true, false, columns}))
            CHECK(columns_of(line) < columns);
    }
}

TEST_CASE_FIXTURE(LiveRun, "colours are there only if the terminal may have them") {
    CHECK(text({true, true, 80}).find('\x1b') != std::string::npos);
    CHECK(text({true, false, 80}).find('\x1b') == std::string::npos);
    CHECK(live_line(state).find('\x1b') == std::string::npos);
}

// Ten fell silent in second 2, and it is second 12: with a limit of 30 s and a tick of 1 s they are
// due in 21 s.
TEST_CASE_FIXTURE(LiveRun,
                  "the wheel has the silent clients at the seconds that are left to them") {
    std::string wheel;
    for (int left = 0; left <= 31; ++left) wheel += left == 21 ? "█" : "·";
    CHECK(text({true, false, 120}).find("wheel       " + wheel + " ") != std::string::npos);
}

TEST_CASE("a run that has measured nothing yet can be shown") {
    Scenario scenario;
    Series series;
    Measurements totals;
    const LiveState state{LiveState::Phase::connecting, 0s, 0s, 0, &scenario, &series, &totals};
    CHECK_FALSE(live_lines(state, {true, true, 80}).empty());
    CHECK(live_line(state).starts_with("connecting"));
}
