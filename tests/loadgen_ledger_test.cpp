#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "loadgen/ledger.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t run = 0xabcd;

struct Fixture {
    Results::Messages counts;
    Results::Period quiet;
    Results::Period storm;
    Periods periods{quiet, storm};
    Ledger ledger{run, 64, counts, periods};
    Time start{1h};

    Buffer post(std::uint32_t from, std::uint32_t to) {
        Buffer payload;
        ledger.post(from, to, start, start + 1ms, payload);
        return payload;
    }
    Ledger::Arrival arrive(std::uint32_t at, const Buffer& payload) {
        return ledger.arrive(at, as_bytes(payload), start + 5ms);
    }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "a message that arrives once is received, timed from its planned moment") {
    const auto payload = post(1, 2);
    CHECK(counts.sent == 1);
    CHECK(counts.lag.max() == 1ms);
    CHECK_FALSE(ledger.empty());

    CHECK(arrive(2, payload) == Ledger::Arrival::first);
    CHECK(counts.received == 1);
    CHECK(counts.latency.max() == 5ms);
    CHECK(ledger.empty());
}

TEST_CASE_FIXTURE(Fixture, "a message that arrives again is a duplicate") {
    const auto payload = post(1, 2);
    arrive(2, payload);
    CHECK(arrive(2, payload) == Ledger::Arrival::again);
    CHECK(counts.received == 1);
    CHECK(counts.duplicated == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "a message at the wrong client is misdirected, and its receiver still waits") {
    const auto payload = post(1, 2);
    CHECK(arrive(3, payload) == Ledger::Arrival::not_ours);
    CHECK(counts.misdirected == 1);
    CHECK_FALSE(ledger.empty());
}

TEST_CASE_FIXTURE(Fixture, "damaged, foreign and never sent messages are not ours") {
    auto payload = post(1, 2);
    CHECK(arrive(2, payload.substr(0, 63)) == Ledger::Arrival::not_ours);
    payload.back() = '!';
    CHECK(arrive(2, payload) == Ledger::Arrival::not_ours);

    write(Stamp{run + 1, 0, start, 1, 2}, 64, payload);
    CHECK(arrive(2, payload) == Ledger::Arrival::not_ours);
    write(Stamp{run, 1, start, 1, 2}, 64, payload);
    CHECK(arrive(2, payload) == Ledger::Arrival::not_ours);
    CHECK(counts.misdirected == 4);
}

TEST_CASE_FIXTURE(Fixture, "what has not arrived can be named") {
    const auto first = post(1, 2);
    post(3, 4);
    arrive(2, first);
    std::vector<std::uint32_t> senders;
    ledger.for_each_missing([&](const Stamp& stamp) { senders.push_back(stamp.sender); });
    CHECK(senders == std::vector<std::uint32_t>{3});
}

TEST_CASE_FIXTURE(Fixture, "a message belongs to the period in which it was planned") {
    const auto early = post(1, 2);  // before the ramp is over
    start += 1ms;
    periods.begin(start);
    const auto in_quiet = post(1, 2);
    periods.strike(start + 2ms);
    arrive(2, early);
    arrive(2, in_quiet);  // at 5 ms, in the storm
    CHECK(quiet.latency.count() == 1);
    CHECK(quiet.lag.count() == 1);
    CHECK(storm.latency.empty());

    start += 2ms;
    const auto in_storm = post(1, 2);
    periods.end(start + 1ms);
    arrive(2, in_storm);
    start += 1ms;
    arrive(2, post(1, 2));  // afterwards
    CHECK(quiet.latency.count() == 1);
    CHECK(storm.latency.count() == 1);
    CHECK(storm.lag.count() == 1);
    CHECK(counts.latency.count() == 4);
}

TEST_CASE_FIXTURE(Fixture, "without a storm there are no periods") {
    arrive(2, post(1, 2));
    CHECK(quiet.latency.empty());
    CHECK(storm.latency.empty());
}
