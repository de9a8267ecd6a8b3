#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "loadgen/report/line_fit.h"
#include "loadgen/report/plan_on_paper.h"

using namespace pulsegate::load;

namespace {

/// A server that takes 10 MB at rest, 2 kB a client and 50 µs a packet; each client sends and gets
/// 0.1 packets a second.
RunRecord run_of(double clients, double memory_error = 0) {
    RunRecord record;
    record.name = "run";
    record.machine.ports = 20'000;
    record.marks = {{10, std::string(marks::go)}};
    for (std::uint32_t second = 0; second < 20; ++second) {
        const double open = second < 10 ? clients * second / 10 : clients;
        Measurements measured;
        measured.add(Count::packets_sent, static_cast<std::uint64_t>(clients * 0.1));
        measured.add(Count::packets_received, static_cast<std::uint64_t>(clients * 0.1));
        measured.set(Gauge::clients_open, open);
        measured.set(Gauge::server_memory, 10e6 + 2e3 * open + memory_error);
        measured.set(Gauge::server_cpu, clients * 0.2 * 50e-6);
        record.series.push_back({second, 1, measured});
    }
    return record;
}

bool doubts(const PaperPlan& plan, std::string_view text) {
    return std::ranges::any_of(plan.doubts, [&](const std::string& doubt) {
        return doubt.find(text) != std::string::npos;
    });
}

}  // namespace

TEST_CASE("several runs make a line, with its error") {
    const std::vector runs{run_of(20'000), run_of(10'000, 20e3), run_of(5'000)};
    const auto plan = plan_on_paper(runs, 1e6);

    REQUIRE(plan.measured.size() == 3);
    CHECK(plan.measured[0].clients == 5'000);  // in order
    CHECK(plan.packets.value == doctest::Approx(200'000));
    REQUIRE(plan.memory_per_client);
    CHECK(plan.memory_per_client->value == doctest::Approx(2e3).epsilon(0.01));
    REQUIRE(plan.memory_per_client->error);
    CHECK(*plan.memory_per_client->error > 0);
    CHECK(*plan.memory_per_client->error < 100);
    CHECK(plan.memory_at_rest->value == doctest::Approx(10e6).epsilon(0.01));
    CHECK(plan.memory->value == doctest::Approx(2.1e9).epsilon(0.01));  // ten processes at rest
    CHECK(plan.cpu_per_packet->value == doctest::Approx(50e-6));
    CHECK(plan.cores_used->value == doctest::Approx(10));
    CHECK(plan.cores()->value == doctest::Approx(20));
    CHECK(plan.nodes == 10);
    CHECK(plan.clients_per_node() == 100'000);
    CHECK(plan.source_addresses() == 5);
}

TEST_CASE("the plan names what was not measured") {
    const std::vector runs{run_of(5'000), run_of(10'000), run_of(20'000)};
    const auto plan = plan_on_paper(runs, 1e6);
    CHECK(doubts(plan, "beyond 20,000 clients"));
    CHECK(doubts(plan, "50 times"));
    CHECK(doubts(plan, "tell each other"));
    CHECK(plan_on_paper(runs, 15'000).doubts.empty());
}

TEST_CASE("one run is measured while its clients come in") {
    const std::vector runs{run_of(20'000)};
    const auto plan = plan_on_paper(runs, 40'000);
    CHECK(plan.memory_per_client->value == doctest::Approx(2e3));
    CHECK(plan.memory_at_rest->value == doctest::Approx(10e6));
    CHECK_FALSE(plan.packets.error);
    CHECK_FALSE(plan.cores_used->error);
    CHECK(doubts(plan, "at least, not from 1"));
}

TEST_CASE("two runs make a line, but say nothing of its error") {
    const std::vector runs{run_of(10'000), run_of(20'000)};
    const auto plan = plan_on_paper(runs, 40'000);
    CHECK(plan.memory->value == doctest::Approx(90e6));
    CHECK_FALSE(plan.memory->error);
    CHECK(doubts(plan, "at least, not from 2"));
}

TEST_CASE("a server whose memory shrinks with its clients allows no estimate") {
    const std::vector runs{run_of(10'000, 40e6), run_of(20'000)};
    const auto plan = plan_on_paper(runs, 1e6);
    CHECK(plan.refused.starts_with(
        "the server's memory shrinks as clients are added, by 2.00 kB a client: "));
    CHECK(plan_text(plan).find("no estimate: the server's memory shrinks") != std::string::npos);
    CHECK(plan_text(plan).find("extrapolated") == std::string::npos);
    CHECK(plan_text(plan).find("10,000") != std::string::npos);  // what was measured
}

TEST_CASE("figures with large errors allow no estimate") {
    SUBCASE("of a client's memory") {
        const std::vector runs{run_of(5'000), run_of(10'000, 10e6), run_of(15'000)};
        CHECK(plan_on_paper(runs, 1e6).refused.starts_with("the error of 'memory a client' is "));
    }
    SUBCASE("of packets, where runs of all sizes have the same number of them") {
        std::vector runs{run_of(2'000), run_of(6'000), run_of(15'000)};
        for (const std::size_t at : {0, 1})
            for (auto& stretch : runs[at].series) {
                const double clients = stretch.measured[Gauge::clients_open];
                stretch.measured = runs[2].series[19].measured;
                stretch.measured.set(Gauge::clients_open, clients);
            }
        CHECK(plan_on_paper(runs, 1e6).refused.starts_with("the error of 'packets' is "));
    }
}

TEST_CASE("the error of two runs is unknown, so it refuses nothing") {
    std::vector runs{run_of(5'000), run_of(15'000)};
    for (auto& stretch : runs[0].series)
        stretch.measured.set(Gauge::server_cpu, stretch.measured[Gauge::server_cpu] * 1.2);
    CHECK(plan_on_paper(runs, 1e6).refused.empty());
}

TEST_CASE("runs that are on a line allow an estimate") {
    const std::vector runs{run_of(5'000), run_of(10'000, 20e3), run_of(15'000)};
    CHECK(plan_on_paper(runs, 1e6).refused.empty());
}

TEST_CASE("a server that can't be seen into leaves its costs open") {
    auto blind = run_of(10'000);
    for (auto& stretch : blind.series) {
        stretch.measured.set(Gauge::server_cpu, -1);
        stretch.measured.set(Gauge::server_memory, -1);
    }
    const std::vector runs{blind};
    const auto plan = plan_on_paper(runs, 40'000);
    CHECK_FALSE(plan.memory);
    CHECK_FALSE(plan.cores());
    CHECK(doubts(plan, "memory was not seen"));
    CHECK(doubts(plan, "CPU was not seen"));
    CHECK(plan_text(plan).find("not seen") != std::string::npos);
}

TEST_CASE("runs that did not pass are named") {
    auto failed = run_of(10'000);
    failed.checks = {{"lost", "every message arrived", CheckResult::Outcome::failed, 1, "1 lost"}};
    failed.verdict = "The server broke a promise.";
    const std::vector runs{failed};
    CHECK(doubts(plan_on_paper(runs, 10'000), "The server broke a promise."));
}

TEST_CASE("records without clients make no plan") {
    const std::vector runs{RunRecord()};
    CHECK_THROWS_AS(plan_on_paper(runs, 1e6), std::runtime_error);
    CHECK_THROWS_AS(plan_on_paper({}, 1e6), std::runtime_error);
}

TEST_CASE("a line fits its points with the least squares") {
    const std::vector<Point> points{{1, 1}, {2, 3}, {3, 2}, {4, 4}};
    const auto fit = LineFit::through(points);
    REQUIRE(fit);
    CHECK(fit->slope().value == doctest::Approx(0.8));
    CHECK(fit->at_zero().value == doctest::Approx(0.5));
    CHECK(fit->at(5) == doctest::Approx(4.5));
    // residual sum of squares 1.8, two degrees of freedom, t = 4.30, Sxx = 5
    CHECK(*fit->slope().error == doctest::Approx(1.8243).epsilon(0.001));

    const std::vector<Point> upright{{1, 1}, {1, 3}};
    CHECK_FALSE(LineFit::through(upright));
    CHECK_FALSE(LineFit::through({}));
}

TEST_CASE("a mean has an error if there are two figures at least") {
    const std::vector<double> values{1, 2, 3};
    CHECK(mean_of(values).value == 2);
    CHECK(*mean_of(values).error == doctest::Approx(2.4826).epsilon(0.001));  // 4.30 / sqrt(3)
    CHECK_FALSE(mean_of(std::vector{5.0}).error);
}
