#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "loadgen/report/comparison.h"
#include "loadgen/report/html.h"
#include "loadgen/report/labels.h"
#include "loadgen/report/table.h"
#include "loadgen/report/text.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

/// Ten seconds in which 1,000 messages a second took so long each.
RunRecord reported_run(const std::string& name, Duration latency) {
    RunRecord record;
    record.name = name;
    record.clients = 500;
    record.marks = {{0, std::string(marks::go)}};
    for (std::uint32_t second = 0; second < 10; ++second) {
        Measurements measured;
        measured.add(Count::messages_planned, 1000);
        measured.add(Count::messages_sent, 1000);
        measured.add(Timing::message, latency);
        measured.set(Gauge::server_memory, 20e6);
        record.series.push_back({second, 1, measured});
        record.totals.merge(measured);
    }
    record.totals.add(Count::entered, 500);
    record.checks = {{"lost", "every message arrived", CheckResult::Outcome::passed, 0, "all"},
                     {"delay", "nothing delays", CheckResult::Outcome::skipped, 0, "no pings"}};
    record.verdict = "All is well.";
    return record;
}

std::size_t widest_line(const std::string& text) {
    std::size_t widest = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) widest = std::max(widest, columns_of(line));
    return widest;
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the table at the end counts, times and judges") {
    const auto text = text_report(reported_run("chat", 300us));
    CHECK(has(text, "connections     500 of 500, 0 failed\n"));
    CHECK(has(text, "messages        1,000/s: 10,000 sent"));
    CHECK(has(text, "                         p50         p99       p99.9         max\n"));
    CHECK(has(text, "message latency       300 µs      300 µs      300 µs      300 µs\n"));
    CHECK(has(text, "server          20.0 MB\n"));
    CHECK(has(text, "pass          every message arrived: all\n"));
    CHECK(has(text, "skipped       nothing delays: no pings\n"));
    CHECK(text.ends_with("\nAll is well.\n"));
    CHECK_FALSE(has(text, "pings "));  // there were none
}

TEST_CASE("checks that had nothing to judge come last, each with its reason") {
    auto record = reported_run("chat", 300us);
    std::ranges::swap(record.checks[0], record.checks[1]);
    CHECK(has(text_report(record),
              "\n\npass          every message arrived: all\n"
              "skipped       nothing delays: no pings\n\nAll is well.\n"));
}

TEST_CASE("a check that failed or was refused can't be overlooked") {
    auto record = reported_run("chat", 300us);
    record.checks[0].outcome = CheckResult::Outcome::failed;
    record.checks[1].outcome = CheckResult::Outcome::refused;
    const auto text = text_report(record);
    CHECK(has(text, "fail          every message arrived"));
    CHECK(has(text, "inconclusive  nothing delays"));
}

TEST_CASE("runs stand side by side, with what they differ in") {
    std::vector runs{reported_run("chat", 1ms), reported_run("chat", 3ms)};
    runs[1].checks[0].outcome = CheckResult::Outcome::failed;
    const auto text = text_comparison(runs);
    CHECK(has(text, "chat (2)"));  // a name of its own
    CHECK(has(text, "3.0 ms (+200 %)"));
    CHECK(has(text, "pass          fail          every message arrived"));
    CHECK_FALSE(has(text, "nothing delays"));  // alike, and no fault
    CHECK(widest_line(text) < 100);

    const auto figures = compared_figures(runs);
    const auto memory = std::ranges::find(figures, "server memory", &ComparedFigure::label);
    REQUIRE(memory != figures.end());
    CHECK(memory->values[1] == 20e6);
    CHECK_FALSE(memory->difference(1));
    CHECK_FALSE(memory->difference(0));
    CHECK(std::ranges::find(figures, "ping p99", &ComparedFigure::label) == figures.end());
}

TEST_CASE("for a repeated run, the median and the spread are shown") {
    const std::vector runs{reported_run("a", 1ms), reported_run("a", 3ms), reported_run("a", 2ms),
                           reported_run("b", 4ms), reported_run("b", 5ms), reported_run("b", 6ms)};
    const auto text = text_comparison(runs, 3);
    CHECK(has(text, "2.0 ms [1.0 ms..3.0 ms]"));
    CHECK(has(text, "5.0 ms [4.0 ms..6.0 ms] (+150 %)"));
    CHECK(widest_line(text) < 110);
    const auto even = compared_figures(std::span(runs).first(2), 2);
    const auto latency = std::ranges::find(even, "message p99", &ComparedFigure::label);
    REQUIRE(latency != even.end());
    CHECK(*latency->values[0] == doctest::Approx(0.002).epsilon(0.02));
}

TEST_CASE("the worst outcome of a check counts among repeats") {
    std::vector runs(4, reported_run("a", 1ms));
    runs[1].checks[0].outcome = CheckResult::Outcome::refused;
    runs[2].checks[0].outcome = CheckResult::Outcome::failed;
    const auto checks = compared_checks(runs, 2);
    REQUIRE(checks.size() == 1);
    CHECK(checks[0].outcomes[0] == CheckResult::Outcome::refused);
    CHECK(checks[0].outcomes[1] == CheckResult::Outcome::failed);
}

TEST_CASE("a run is worse if its figures are, by more than was said and beyond the spread") {
    const auto judged = [](std::vector<Duration> first, std::vector<Duration> second, double most) {
        std::vector<RunRecord> runs;
        for (const auto& latencies : {first, second})
            for (const Duration latency : latencies) runs.push_back(reported_run("a", latency));
        return worsening(runs, first.size(), most).figures.size();
    };
    CHECK(judged({1ms}, {3ms}, 1) > 0);
    CHECK(judged({1ms}, {3ms}, 3) == 0);
    CHECK(judged({3ms}, {1ms}, 0.1) == 0);  // better
    CHECK(judged({1ms, 1ms}, {2ms, 3ms}, 0.1) > 0);
    CHECK(judged({1ms, 3ms}, {2ms, 4ms}, 0.1) == 0);  // it may be chance
}

TEST_CASE("figures of the generator make no run worse") {
    std::vector runs(2, reported_run("a", 1ms));
    for (auto& stretch : runs[0].series) stretch.measured.set(Gauge::worker_cpu, 0.1);
    for (auto& stretch : runs[1].series) stretch.measured.set(Gauge::worker_cpu, 0.3);
    CHECK(worsening(runs, 1, 0.1).figures.empty());
}

TEST_CASE("faults where there were none are worse, by whatever percentage") {
    std::vector runs(2, reported_run("a", 1ms));
    runs[1].totals.add(Count::messages_lost, 1);
    CHECK(worsening(runs, 1, 100).figures.size() == 1);
}

TEST_CASE("a broken promise is worse, and a refused verdict says nothing of figures") {
    std::vector runs(2, reported_run("a", 1ms));
    runs[1].checks[0].outcome = CheckResult::Outcome::failed;
    CHECK(worsening(runs, 1, 1).broken ==
          std::vector<std::string>{"a (2) broke: every message arrived"});
    runs[0].checks[0].outcome = CheckResult::Outcome::failed;
    CHECK(worsening(runs, 1, 1).broken.empty());  // it was no better before
    CHECK(worsening(runs, 1, 1).refused.empty());
    for (auto& run : runs) run.checks[0].outcome = CheckResult::Outcome::refused;
    CHECK(worsening(runs, 1, 1).refused == "a: “every message arrived” can't be judged (all)");
    runs[1].checks[0].outcome = CheckResult::Outcome::failed;
    CHECK(worsening(runs, 1, 1).broken.empty());  // it may have been no better before
}

TEST_CASE("figures are not judged if the generator was too slow, whatever else has failed") {
    std::vector runs(2, reported_run("a", 1ms));
    runs[1].checks[0].outcome = CheckResult::Outcome::failed;
    CHECK(worsening(runs, 1, 1).refused.empty());
    runs[1].checks[1].outcome = CheckResult::Outcome::refused;
    CHECK(worsening(runs, 1, 1).refused == "a (2): “nothing delays” can't be judged (no pings)");
}

TEST_CASE("figures are not judged because of the generator, not because of a promise that failed") {
    std::vector runs(2, reported_run("a", 1ms));
    runs[0].verdict = "The server broke 1 of 2 promises.";
    runs[0].checks[0].outcome = CheckResult::Outcome::refused;
    runs[0].checks[1].outcome = CheckResult::Outcome::failed;
    runs[0].checks.push_back({"generator_stalls", "the generator never stood still",
                              CheckResult::Outcome::refused, 2, "it stalled for 2 s"});
    CHECK(worsening(runs, 1, 1).refused ==
          "a: the generator or its machine was the bottleneck: it stalled for 2 s");
}

TEST_CASE("a figure that only one run has is not compared") {
    std::vector runs{reported_run("a", 1ms), RunRecord()};
    const auto figures = compared_figures(runs);
    const auto latency = std::ranges::find(figures, "message p99", &ComparedFigure::label);
    REQUIRE(latency != figures.end());
    CHECK_FALSE(latency->values[1]);
    CHECK_FALSE(latency->difference(1));
    CHECK(has(text_comparison(runs), "-"));
}

TEST_CASE("quantities are shown in units that fit them") {
    CHECK(show_bytes(0) == "0 bytes");
    CHECK(show_bytes(999) == "999 bytes");
    CHECK(show_bytes(999.6) == "1.00 kB");
    CHECK(show_bytes(35.2e6) == "35.2 MB");
    CHECK(show_bytes(99.96e6) == "100 MB");
    CHECK(show_bytes(1.5e12) == "1.50 TB");
    CHECK(show_cores(0.284) == "28 % of a core");
    CHECK(show_cores(3.21) == "3.2 cores");
    CHECK(show_figure(50e-6, Unit::time) == "50.0 µs");
    CHECK(show_figure(15'000, Unit::count) == "15,000");
    CHECK(show_moment(0) == "1970-01-01 00:00:00 UTC");
    CHECK(columns_of("5 µs") == 4);
    CHECK(padded_left("µ", 3) == "  µ");
    CHECK(padded_right("µ", 3) == "µ  ");
}

TEST_CASE("the page holds all that it needs, and no text of a run gets out of its place") {
    auto record = reported_run("</script><script>alert(1)</script>", 300us);
    record.notes = {"{{script}}"};
    const std::vector runs{record};
    const auto page = html_report(runs);
    CHECK(has(page, "Chart.js v3"));
    CHECK(has(page, "\\u003c/script>"));
    CHECK_FALSE(has(page, "<script>alert"));
    CHECK(has(page, "\"{{script}}\""));  // as it was written
    for (const char* elsewhere : {"src=\"http", "href=\"http", "url(http", "@import"}) {
        CAPTURE(elsewhere);
        CHECK_FALSE(has(page, elsewhere));
    }
}
