#include <doctest/doctest.h>

#include <filesystem>

#include "loadgen/report/record.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

RunRecord full_record() {
    RunRecord record;
    record.version = "1.2.3";
    record.name = "keepalive";
    record.command = "pulsegate-loadgen --clients 7 \"quoted\"";
    record.scenario = "name keepalive\nclients 7\n";
    record.target = "mqtt://127.0.0.1:1883";
    record.started = 1'764'000'000;
    record.clients = 7;
    record.workers = 2;
    record.sources = 16;
    record.interrupted = true;
    record.machine = {"a CPU", 2, 1'000'000, "Linux 6", 20'000, 28'232, 4096};
    record.server = {true, 4242, "pulsegate --demo", "http://127.0.0.1:8080/metrics"};
    Measurements measured;
    measured.add(Count::messages_sent, 5);
    measured.add(Timing::message, 300us);
    measured.set(Gauge::server_cpu, 0.25);
    record.series = {{3, 1, measured}, {4, 2, {}}};
    record.totals = measured;
    record.marks = {{5.5, "measuring begins"}};
    record.checks = {{"lost", "every message arrived", CheckResult::Outcome::refused, 12, "12"},
                     {"delay", "nothing delays", CheckResult::Outcome::skipped, 0.5, "why"}};
    record.examples = {"client 3 was closed"};
    record.notes = {"a note with µ"};
    record.verdict = "No verdict.";
    return record;
}

}  // namespace

TEST_CASE("a record comes back from its file as it was") {
    const pulsegate::TemporaryFolder folder;
    const auto file = folder.path("run.json");
    const auto record = full_record();
    write_record(record, file);
    const auto read = read_record(file);

    CHECK(record_text(read) == record_text(record));
    CHECK(read.name == "keepalive");
    CHECK(read.interrupted);
    CHECK(read.machine.cores == 2);
    CHECK(read.server.pid == 4242);
    REQUIRE(read.series.size() == 2);
    CHECK(read.series[1].length == 2);
    CHECK(read.series[0].measured[Gauge::server_cpu] == 0.25);
    CHECK(read.totals[Timing::message].max() == 300us);
    CHECK(read.checks[0].outcome == CheckResult::Outcome::refused);
    CHECK(read.checks[1].value == 0.5);
    CHECK(read.marked("measuring begins") == 5.5);
    CHECK_FALSE(read.marked("drain begins"));
}

TEST_CASE("fields that are not known, or not there, do no harm") {
    const auto record = record_from(
        R"({"kind":"a run of pulsegate-loadgen","name":"old","colour":"blue","server":{"moon":1}})");
    CHECK(record.name == "old");
    CHECK(record.series.empty());
    CHECK(record.measured().length() == 0);
}

TEST_CASE("a file that is no record says what is wrong with it") {
    const auto wrong = [](std::string_view text) -> std::string {
        try {
            record_from(text);
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "nothing";
    };
    CHECK(wrong("").starts_with("no JSON"));
    CHECK(wrong(record_text(full_record()).substr(0, 200)).starts_with("no JSON"));
    CHECK(wrong("[]") == "JSON, but not of a run");
    CHECK(wrong("{}") == "JSON, but not of a run");
    const std::string kind = R"({"kind":"a run of pulsegate-loadgen",)";
    CHECK(wrong(kind + R"("clients":-1})").starts_with("'clients'"));
    CHECK(wrong(kind + R"("checks":[{"name":7}]})").starts_with("'checks': 'name'"));
    CHECK(wrong(kind + R"("series":[{"second":1,"length":0}]})").starts_with("'series'"));
    CHECK(wrong(kind + R"("totals":{"counts":5}})").starts_with("'totals'"));
    CHECK_THROWS_WITH(read_record("/nowhere/run.json"),
                      "/nowhere/run.json is not a result of a run: it can't be opened");
    CHECK_THROWS_AS(write_record(full_record(), "/nowhere/run.json"), std::runtime_error);
}

TEST_CASE("the measured part is between its marks, or up to the end") {
    auto record = full_record();
    record.series = {{0, 1, {}}, {29, 1, {}}};
    CHECK(record.measured().from == 5.5);
    CHECK(record.measured().to == 30);
    record.marks.push_back({20, std::string(marks::drain)});
    CHECK(record.measured().to == 20);
}

// -- the series

namespace {

Measurements counted(std::uint64_t messages, double cpu) {
    Measurements measured;
    measured.add(Count::messages_sent, messages);
    measured.add(Timing::message, 1ms);
    measured.set(Gauge::worker_cpu, cpu);
    return measured;
}

}  // namespace

TEST_CASE("measurements of several workers in one second are added up") {
    Series series;
    series.add(3, counted(10, 0.5));
    series.add(5, counted(1, 0.25));
    series.add(3, counted(20, 0.25), 1);
    const auto stretches = series.stretches();
    REQUIRE(stretches.size() == 2);
    CHECK(stretches[0].second == 3);
    CHECK(stretches[0].measured[Count::messages_sent] == 30);
    CHECK(stretches[0].measured[Gauge::worker_cpu] == 0.75);
    CHECK(series.at(5)[Count::messages_sent] == 1);
    CHECK(series.at(4).empty());
    CHECK(series.recent(3, 5)[Count::messages_sent] == 31);
    CHECK(series.recent(3, 5)[Gauge::worker_cpu] == 0.5);  // the mean of two seconds
    CHECK(series.latest() == 5);
}

TEST_CASE("a level that a worker tells again in the same second replaces what it told before") {
    Series series;
    series.add(3, counted(10, 0.5), 1);
    series.add(3, counted(5, 0.25), 1);
    series.add(3, counted(1, 0.5), 2);
    CHECK(series.at(3)[Count::messages_sent] == 16);
    CHECK(series.at(3)[Gauge::worker_cpu] == 0.75);
}

TEST_CASE("a long run is kept in few stretches, with all that was counted") {
    Series series;
    constexpr std::uint32_t length = 5000;
    for (std::uint32_t second = 0; second < length; ++second)
        for (std::uint32_t worker = 0; worker < 2; ++worker)
            series.add(second, counted(1, 0.25), worker);

    const auto stretches = series.stretches();
    CHECK(stretches.size() <= Series::most + Series::open_seconds + 2);
    std::uint64_t messages = 0;
    std::uint32_t next = 0;
    for (const auto& stretch : stretches) {
        CHECK(stretch.second == next);  // without gaps and overlaps
        next = stretch.second + stretch.length;
        messages += stretch.measured[Count::messages_sent];
        CHECK(stretch.measured[Gauge::worker_cpu] == 0.5);
        CHECK(stretch.measured[Timing::message].count() == 2 * stretch.length);
    }
    CHECK(next == length);
    CHECK(messages == 2 * length);
}

TEST_CASE("for levels that stand for the worst moment, the worst stays") {
    Measurements quiet;
    quiet.set(Gauge::server_silence, 0.1);
    Measurements silent;
    silent.set(Gauge::server_silence, 2.5);
    const auto sum = between({{0, 1, quiet}, {1, 1, silent}, {2, 1, quiet}}, 0, 3);
    CHECK(sum[Gauge::server_silence] == 2.5);
    CHECK(between({{0, 1, quiet}, {1, 1, silent}}, 0, 1)[Gauge::server_silence] == 0.1);
}
