#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <utility>

#include "loadgen/lab/capacity.h"
#include "loadgen/lab/capacity_search.h"
#include "loadgen/lab/objectives.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;
using Kind = CapacitySearch::Verdict::Kind;

namespace {

/// A server that holds a scale or breaks, near its capacity now so, now so.
class SimulatedServer {
public:
    SimulatedServer(double capacity, double noise, unsigned seed)
        : capacity_(capacity), noise_(noise), dice_(seed) {}

    TrialOutcome run(double scale) {
        if (scale > generator_) return TrialOutcome::refused;
        const double limit = std::normal_distribution(capacity_, capacity_ * noise_)(dice_);
        return scale <= limit ? TrialOutcome::held : TrialOutcome::broke;
    }

    void limit_generator(double scale) { generator_ = scale; }

private:
    const double capacity_;
    const double noise_;
    double generator_ = 1e9;
    std::mt19937 dice_;
};

CapacitySearch::Verdict search(SimulatedServer server, CapacitySearch::Settings settings = {}) {
    CapacitySearch search(settings);
    while (const auto scale = search.next()) search.tell(*scale, server.run(*scale));
    return search.verdict();
}

RunRecord steady_record() {
    RunRecord record;
    record.marks = {{10, std::string(marks::go)}, {20, std::string(marks::drain)}};
    for (std::uint32_t second = 0; second < 25; ++second) {
        Stretch stretch{second, 1, {}};
        for (int i = 0; i < 100; ++i) stretch.measured.add(Timing::message, 5ms);
        stretch.measured.set(Gauge::server_cpu, 0.5);
        record.series.push_back(stretch);
    }
    record.totals.add(Count::entered, 100);
    record.server.on_this_machine = true;
    record.machine.cores = 2;
    return record;
}

Scenario hundred_clients() {
    Scenario scenario;
    scenario.groups.resize(1);
    scenario.groups[0].clients = 100;
    return scenario;
}

}  // namespace

TEST_CASE("the search finds the edge of a server that always breaks at the same load") {
    for (const double capacity : {0.05, 0.7, 1.0, 3.3, 61.0, 900.0}) {
        const auto verdict = search({capacity, 0, 1});
        CAPTURE(capacity);
        CHECK(verdict.kind == Kind::found);
        CHECK(verdict.holds <= capacity);
        CHECK(verdict.breaks > capacity);
        CHECK(verdict.breaks / verdict.holds <= 1.1);
        CHECK(verdict.confidence == doctest::Approx(0.879).epsilon(0.001));  // 3 of 3, twice
        CHECK(verdict.trials <= 25);
    }
}

TEST_CASE("a server that breaks now and then is found within its noise, with less confidence") {
    double confidence = 0;
    int near = 0;
    for (unsigned seed = 0; seed < 100; ++seed) {
        const auto verdict = search({10, 0.1, seed});
        CHECK(verdict.trials <= 30);
        confidence += verdict.confidence / 100;
        near += verdict.holds > 7 && verdict.holds < 12.5 ? 1 : 0;
    }
    CHECK(near >= 90);
    CHECK(confidence > 0.6);
    CHECK(confidence < 0.86);
}

TEST_CASE("there is no verdict beyond what the generator could do itself") {
    SimulatedServer server(100, 0, 1);
    server.limit_generator(6);
    const auto verdict = search(server);
    CHECK(verdict.kind == Kind::refused);
    CHECK(verdict.holds <= 6);
    CHECK(verdict.holds > 5);
    CHECK(verdict.breaks == 0);
}

TEST_CASE("a load that was refused once is tried again, and what it shows then counts") {
    CapacitySearch search({});
    search.tell(1, TrialOutcome::held);
    search.tell(2, TrialOutcome::broke);
    const double between = search.next().value();
    CHECK(between == doctest::Approx(std::sqrt(2)));
    search.tell(between, TrialOutcome::refused);
    CHECK(search.next() == between);
    CHECK(search.verdict().kind == Kind::unfinished);
    search.tell(between, TrialOutcome::held);
    CHECK(search.next().value() > between);

    while (const auto scale = search.next())
        search.tell(*scale, *scale < 1.5 ? TrialOutcome::held : TrialOutcome::broke);
    CHECK(search.verdict().kind == Kind::found);
    CHECK(search.verdict().holds < 1.5);
    CHECK(search.verdict().breaks >= 1.5);
    CHECK(search.verdict().refused == 1);
}

TEST_CASE("loads that are refused again hide no break above them") {
    CapacitySearch search({});
    const auto run = [](double scale) {
        if (scale < 1.2) return TrialOutcome::held;
        return scale < 1.6 ? TrialOutcome::refused : TrialOutcome::broke;
    };
    while (const auto scale = search.next()) search.tell(*scale, run(*scale));
    CHECK(search.verdict().kind == Kind::refused);
    CHECK(search.verdict().holds < 1.2);
    CHECK(search.verdict().breaks >= 1.6);
    CHECK(search.verdict().breaks <= 2);
}

TEST_CASE("one refused trial does not end a search without repeats") {
    CapacitySearch search({.repeats = 1});
    search.tell(1, TrialOutcome::refused);
    CHECK(search.next() == 1);
}

TEST_CASE("a search is given up when the generator is in trouble at any load") {
    SimulatedServer server(100, 0, 1);
    server.limit_generator(0);
    const auto verdict = search(server);
    CHECK(verdict.kind == Kind::refused);
    CHECK(verdict.holds == 0);
    CHECK(verdict.trials == 3);
}

TEST_CASE("the search ends at the most and at the least that it may try") {
    auto verdict = search({1e6, 0, 1}, {.most = 8});
    CHECK(verdict.kind == Kind::unlimited);
    CHECK(verdict.holds == 8);

    verdict = search({1e-6, 0, 1}, {.least = 0.25});
    CHECK(verdict.kind == Kind::nothing);
    CHECK(verdict.holds == 0);
    CHECK(verdict.breaks == 0.25);
}

TEST_CASE("one bad trial at the first scale is repeated before it counts") {
    CapacitySearch search({});
    search.tell(1, TrialOutcome::broke);
    REQUIRE(search.next() == 0.5);
    search.tell(0.5, TrialOutcome::held);
    while (const auto scale = search.next()) search.tell(*scale, TrialOutcome::held);
    CHECK(search.verdict().kind == Kind::unlimited);
    CHECK(search.verdict().holds == 4096);
}

TEST_CASE("a search that ends before it knows the edge is unfinished") {
    CHECK(CapacitySearch({}).verdict().kind == Kind::unfinished);
    CHECK(search({1e6, 0, 1}, {.most_trials = 3}).kind == Kind::unfinished);
    CHECK(search({1e-6, 0, 1}, {.most_trials = 3}).kind == Kind::unfinished);
    const auto far = search({1.5, 0, 1}, {.most_trials = 2});
    CHECK(far.kind == Kind::unfinished);
    CHECK(far.holds == 1);
    CHECK(far.breaks == 2);
}

TEST_CASE("an edge that there were no trials left to repeat is known with less confidence") {
    const auto verdict = search({1.5, 0, 1}, {.resolution = 1, .most_trials = 2});
    CHECK(verdict.kind == Kind::found);
    CHECK(verdict.confidence < 0.6);
}

TEST_CASE("a search that ended early says why, and what it has seen") {
    CapacityResult result;
    result.interrupted = true;
    result.ended = "interrupted";
    CHECK(result.sentence() == "no verdict: interrupted after 0 trials");

    result.trials = {{1, TrialOutcome::held, 60, 20, ""},
                     {2, TrialOutcome::broke, 120, 40, "losses (3 messages lost)"}};
    result.verdict.holds = 1;
    result.verdict.breaks = 2;
    CHECK(result.sentence() ==
          "no verdict: interrupted after 2 trials; this machine holds 60 clients at 20 packets a "
          "second; broke at 120 clients at 40 packets a second: losses (3 messages lost)");
    CHECK(result.json().find("\"interrupted\":true") != std::string::npos);
    CHECK(result.json().find("\"verdict\":\"unfinished\"") != std::string::npos);
}

TEST_CASE("a search that is out of trials has no verdict, and one without its server has failed") {
    CapacityResult result;
    result.verdict.kind = Kind::unfinished;
    CHECK(result.exit_status() == refused_status);
    result.failed = true;
    CHECK(result.exit_status() == EXIT_FAILURE);
    result.interrupted = true;
    CHECK(result.exit_status() == Interruption::exit_status);
    result = {};
    for (const auto& [kind, status] :
         {std::pair(Kind::found, EXIT_SUCCESS), std::pair(Kind::unlimited, EXIT_SUCCESS),
          std::pair(Kind::nothing, EXIT_FAILURE), std::pair(Kind::refused, refused_status)}) {
        result.verdict.kind = kind;
        CHECK(result.exit_status() == status);
    }
}

TEST_CASE("a capacity that is not known still says what broke above it, and what was refused") {
    CapacityResult result;
    result.trials = {{1, TrialOutcome::refused, 60, 20, "another program was busy"},
                     {1, TrialOutcome::held, 60, 20, ""},
                     {4, TrialOutcome::broke, 240, 80, "losses (3 messages lost)"},
                     {2, TrialOutcome::refused, 120, 40, "the generator was late"},
                     {2, TrialOutcome::refused, 120, 40, "the generator was late"}};
    result.verdict = {Kind::refused, 1, 4, 0.75, 5, 3};
    CHECK(result.sentence() ==
          "no verdict: this machine holds 60 clients at 20 packets a second and perhaps more; "
          "beyond that the generator or its machine was the bottleneck: the generator was late; "
          "at 240 clients at 80 packets a second broke first: losses (3 messages lost) (5 trials, "
          "3 of them refused; a refused load is tried again)");
    CHECK(result.json().find("\"refused\":3") != std::string::npos);
}

TEST_CASE("confidence grows with the trials that agree") {
    CHECK(probability_of_majority(0, 0) == 0.5);
    CHECK(probability_of_majority(1, 0) == 0.75);
    CHECK(probability_of_majority(3, 0) == doctest::Approx(0.9375));
    CHECK(probability_of_majority(2, 1) == doctest::Approx(0.6875));
    CHECK(probability_of_majority(0, 3) == doctest::Approx(0.0625));
}

TEST_CASE("objectives are read from a list, and what is not named keeps its default") {
    const auto objectives = parse_objectives("p99=20ms,losses=3");
    CHECK(objectives.p99 == 20ms);
    CHECK(objectives.losses == 3);
    CHECK(objectives.false_offline == 0);
    CHECK(objectives.server_cpu == 0.9);
    CHECK(parse_objectives("server-cpu=50%").server_cpu == 0.5);
    CHECK_THROWS_AS(parse_objectives("p98=20ms"), std::invalid_argument);
    CHECK_THROWS_AS(parse_objectives("p99"), std::invalid_argument);
}

TEST_CASE("a run that keeps to its objectives misses nothing") {
    CHECK(misses({}, hundred_clients(), steady_record()).empty());
}

TEST_CASE("what was missed is told in the order in which it happened") {
    auto record = steady_record();
    record.totals.add(Count::messages_lost, 3);
    record.totals.add(Count::false_offline, 1);
    record.series[17].measured.add(Count::false_offline, 1);
    for (std::uint32_t second = 13; second < 20; ++second) {
        record.series[second].measured.set(Gauge::server_cpu, 1.95);
        for (int i = 0; i < 10; ++i) record.series[second + 1].measured.add(Timing::message, 300ms);
    }
    const auto missed = misses({}, hundred_clients(), record);
    REQUIRE(missed.size() == 4);
    CHECK(missed[0].name == "the server's CPU");
    CHECK(missed[0].second == 13);
    CHECK(missed[1].name == "p99 of messages");
    CHECK(missed[1].second == 14);
    CHECK(missed[2].name == "false offline");
    CHECK(missed[2].second == 17);
    CHECK(missed[3].name == "losses");
}

TEST_CASE("messages that were refused, never acknowledged or never sent count as well") {
    auto record = steady_record();
    record.totals.add(Count::messages_planned, 10'000);
    record.totals.add(Count::messages_unsent, 10);
    CHECK(misses({}, hundred_clients(), record).empty());

    record.totals.add(Count::messages_unsent, 1);
    record.totals.add(Count::publishes_refused, 2);
    record.totals.add(Count::unacknowledged, 3);
    const auto missed = misses({}, hundred_clients(), record);
    REQUIRE(missed.size() == 2);
    CHECK(missed[0].detail == "0 messages lost, 2 refused, 3 never acknowledged");
    CHECK(missed[1].name == "messages that could not be sent");
    CHECK(missed[1].detail == "11 of 10,000");
    CHECK(misses({.losses = 5}, hundred_clients(), record).size() == 1);
}

TEST_CASE("a load at which not everybody came in was not held") {
    auto scenario = hundred_clients();
    scenario.groups[0].clients = 101;
    const auto missed = misses({}, scenario, steady_record());
    REQUIRE(missed.size() == 1);
    CHECK(missed[0].detail == "100 of 101 clients came in");
}
