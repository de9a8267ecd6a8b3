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
    Ledger ledger{run, 64, counts};
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
