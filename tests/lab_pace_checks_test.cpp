#include <doctest/doctest.h>

#include <algorithm>

#include "loadgen/report/hostile_effect.h"
#include "tests/support/judged_run.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

using Outcome = CheckResult::Outcome;

}  // namespace

TEST_CASE_FIXTURE(JudgedRun, "a storm that takes too long fails its check") {
    record.totals.add(Count::vanished);
    record.totals.add(Timing::back_again, 61s);
    CHECK(only_fails("storm_back"));
}

TEST_CASE_FIXTURE(JudgedRun, "a storm that slows the others down fails its check") {
    at(21).add(Timing::message, 10ms);
    at(22).add(Timing::message, 10ms);
    at(22).add(Timing::message, 10ms);
    CHECK(only_fails("storm_latency"));
    CHECK(check("storm_latency").value == doctest::Approx(33).epsilon(0.05));
}

TEST_CASE_FIXTURE(JudgedRun,
                  "a storm in which the generator itself was slow is not judged by its p99") {
    for (std::size_t second = 20; second < 24; ++second) {
        at(second).add_all(Timing::message, at(20)[Timing::message]);
        for (int message = 0; message < 10; ++message) {
            at(second).add(Timing::message, 10ms);
            at(second).add(Timing::send_lag, 9ms);
        }
    }
    CHECK(outcome("storm_latency") == Outcome::refused);
}

TEST_CASE_FIXTURE(JudgedRun, "each storm is judged, and the worst is told") {
    record.marks[2].text += ": phones";
    record.marks[3].text += ": phones";
    record.marks.push_back({32, std::string(marks::storm) + ": cars"});
    record.marks.push_back({34, std::string(marks::storm_over) + ": cars"});
    CHECK(outcome("storm_latency") == Outcome::passed);
    slow_down(32, 34, 30ms);
    CHECK(check("storm_latency").outcome == Outcome::failed);
    CHECK(check("storm_latency").detail.starts_with("cars: "));

    SUBCASE("what the server did is worse than a worse lag of the generator") {
        slow_down(21, 23, 60ms);
        for (std::size_t second = 21; second < 23; ++second)
            for (int message = 0; message < 200; ++message) at(second).add(Timing::send_lag, 60ms);
        CHECK(check("storm_latency").outcome == Outcome::failed);
        CHECK(check("storm_latency").detail.starts_with("cars: "));
    }
}

TEST_CASE_FIXTURE(JudgedRun, "hostile clients are judged by what the others got before them") {
    CHECK(check("hostile").detail.starts_with("with 7 garbage clients p99 of messages"));
    for (std::uint32_t second = 26; second < 45; ++second)
        for (int message = 0; message < 10; ++message) at(second).add(Timing::message, 30ms);

    const auto harmed = check("hostile");
    CHECK(harmed.outcome == Outcome::failed);
    CHECK(harmed.value > 50);
    CHECK(harmed.detail.find("p99 of messages rose from ") != std::string::npos);

    SUBCASE("not if it was the generator") {
        for (std::uint32_t second = 26; second < 45; ++second)
            for (int message = 0; message < 10; ++message) at(second).add(Timing::send_lag, 30ms);
        CHECK(outcome("hostile") == Outcome::refused);
    }
    SUBCASE("its lag explains what is as short, whatever else is slower") {
        scenario.hostile_factor = 200;
        for (std::uint32_t second = 26; second < 45; ++second) {
            for (int ping = 0; ping < 5; ++ping) at(second).add(Timing::ping, 20ms);
            for (int message = 0; message < 10; ++message) at(second).add(Timing::send_lag, 12ms);
        }
        CHECK(outcome("hostile") == Outcome::refused);  // 333 times, but half of it is lag
    }
    SUBCASE("what happens in the second of their coming is on no side") {
        scenario.hostile_factor = 200;
        slow_down(25, 26, 30s);
        CHECK(outcome("hostile") == Outcome::passed);
    }
    SUBCASE("a storm before they come does not hide it") {
        slow_down(20, 25, 30s);
        CHECK(outcome("hostile") == Outcome::failed);
    }
    SUBCASE("without a quiet time there is nothing to compare") {
        std::erase_if(record.marks, [](const Mark& mark) { return mark.text == marks::hostile; });
        CHECK(outcome("hostile") == Outcome::skipped);
    }
}

TEST_CASE_FIXTURE(JudgedRun,
                  "the sides before and with hostile clients are compared by their rates") {
    const auto row = [&](std::string_view label) {
        const auto rows = effect_rows(hostile_effect(record).value());
        const auto found = std::ranges::find(rows, label, &EffectRow::label);
        return found == rows.end() ? std::optional<EffectRow>() : *found;
    };
    for (std::uint32_t second = 5; second < 45; ++second) at(second).add(Count::false_offline, 2);
    CHECK(row("false offline").value().before == 2.0);
    CHECK(row("false offline").value().with == 2.0);
    CHECK(row("connects refused").value().with == 0.0);

    CHECK(row("arrived of sent").value().with == 1.0);
    record.totals.add(Count::messages_expected, 10'000);  // in rooms
    CHECK_FALSE(row("arrived of sent"));
}

TEST_CASE_FIXTURE(JudgedRun, "hostile clients are not blamed for a storm") {
    storm_from(30, 33);
    slow_down(30, 34, 30s);
    CHECK(outcome("hostile") == Outcome::passed);

    slow_down(34, 35, 30s);
    CHECK(outcome("hostile") == Outcome::failed);

    SUBCASE("if there is only a storm, nothing can be said") {
        storm_from(25, 45);
        CHECK(check("hostile").outcome == Outcome::skipped);
        CHECK(check("hostile").detail == "the time with hostile clients is all storm");
    }
}

TEST_CASE_FIXTURE(JudgedRun,
                  "long stretches are judged as a storm's, or as quiet, only as a whole") {
    const auto join_seconds = [this](std::uint32_t begin, std::uint32_t end) {
        Stretch joined = record.series[begin];
        for (auto second = begin + 1; second < end; ++second) join(joined, record.series[second]);
        return joined;
    };
    SUBCASE("one that begins in the quiet time hides no storm") {
        storm_from(20, 32);
        slow_down(20, 32, 3ms);
        record.series = {join_seconds(0, 8), join_seconds(8, 16), join_seconds(16, 24),
                         join_seconds(24, 32), join_seconds(32, 50)};
        CHECK(outcome("storm_latency") == Outcome::failed);
    }
    SUBCASE("one that ends after the storm makes it no worse") {
        slow_down(24, 28, 30ms);
        record.series = {join_seconds(0, 8),   join_seconds(8, 16),  join_seconds(16, 20),
                         join_seconds(20, 22), join_seconds(22, 28), join_seconds(28, 50)};
        CHECK(outcome("storm_latency") == Outcome::passed);
    }
    SUBCASE("if no stretch is all storm, nothing can be said") {
        record.series = {join_seconds(0, 8), join_seconds(8, 16), join_seconds(16, 32),
                         join_seconds(32, 50)};
        CHECK(outcome("storm_latency") == Outcome::skipped);
    }
}

TEST_CASE_FIXTURE(JudgedRun, "a long stretch that reaches into hostile time is no quiet one") {
    slow_down(26, 48, 30s);
    storm_from(4, 5);
    std::vector<Stretch> joined;
    const auto join_from = [&](std::uint32_t begin, std::uint32_t end) {
        joined.push_back(record.series[begin]);
        for (auto second = begin + 1; second < end; ++second)
            join(joined.back(), record.series[second]);
    };
    join_from(0, 8);
    join_from(8, 16);
    SUBCASE("it is on no side, and hides no harm") {
        join_from(16, 32);
        join_from(32, 48);
        record.marks[4].at = 48;
        record.series = joined;
        CHECK(outcome("hostile") == Outcome::failed);
    }
    SUBCASE("and if there is no other, nothing can be compared") {
        joined.clear();
        join_from(0, 32);
        join_from(32, 48);
        record.series = joined;
        CHECK(outcome("hostile") == Outcome::skipped);
        CHECK(check("hostile").detail == "the quiet time is shorter than a stretch of this run");
    }
}
