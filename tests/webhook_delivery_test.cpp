#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "server/events/delivery.h"
#include "server/events/event_json.h"
#include "server/events/signature.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

/// Sends events with the numbers up to `count` to a backend that refuses batches with one of the
/// poisoned. Returns the numbers that it took, in their order.
struct Delivered {
    std::vector<std::size_t> taken{};
    std::set<std::size_t> dead{};
    std::size_t requests = 0;
    std::size_t waits = 0;
};

Delivered deliver(std::size_t count, std::size_t batch, const std::set<std::size_t>& poisoned) {
    Delivered all;
    BatchSize size(batch);
    for (std::size_t next = 1; next <= count;) {
        const std::size_t sent = std::min(size.next(), count - next + 1);
        REQUIRE(++all.requests < 10 * count);
        const auto first = poisoned.lower_bound(next);
        if (first != poisoned.end() && *first < next + sent) {
            const auto step = size.refused(sent);
            if (step == BatchSize::Step::set_aside) all.dead.insert(next++);
            all.waits += step == BatchSize::Step::wait;
            continue;
        }
        size.delivered(sent);
        for (const std::size_t end = next + sent; next < end; ++next) all.taken.push_back(next);
    }
    return all;
}

}  // namespace

TEST_CASE("a signature is the HMAC of time and body") {
    // openssl dgst -sha256 -hmac "It's a secret" <<< '1700000000.{"events":[]}' without its newline
    CHECK(webhook_signature("It's a secret", 1'700'000'000, R"({"events":[]})") ==
          "t=1700000000,v1=50cd0aa5de0aa9addc4e07406f573c88703e6a4b0dba76d3b8759704db7aef7d");
}

TEST_CASE("the event to blame is found by halves, and all others are delivered in order") {
    for (const std::set<std::size_t>& poisoned :
         {std::set<std::size_t>{}, {1}, {100}, {37}, {1, 2, 3}, {50, 51, 99}, {100, 101, 250}}) {
        const Delivered all = deliver(250, 100, poisoned);
        CHECK(all.dead == poisoned);
        std::vector<std::size_t> expected;
        for (std::size_t i = 1; i <= 250; ++i)
            if (!poisoned.contains(i)) expected.push_back(i);
        CHECK(all.taken == expected);
        CHECK(all.requests <= 3 + 16 * poisoned.size());  // twice the logarithm of 100, and one
    }
}

TEST_CASE("a backend that refuses everything is asked for one event, less and less often") {
    std::set<std::size_t> poisoned;
    for (std::size_t i = 1; i <= 12; ++i) poisoned.insert(i);
    const Delivered all = deliver(250, 100, poisoned);
    CHECK(all.dead == poisoned);
    CHECK(all.waits == 2 * (BatchSize::attempts - 1));
    CHECK(all.taken.size() == 238);
    CHECK(all.requests <= 10 * 8 + all.waits + 2 + 4);

    // One that is taken clears the backend, and another ten may be set aside.
    BatchSize size(1);
    for (int run = 0; run < 3; ++run) {
        for (int i = 0; i < 10; ++i) CHECK(size.refused(1) == BatchSize::Step::set_aside);
        CHECK(size.refused(1) == BatchSize::Step::wait);
        size.delivered(1);
    }
}

TEST_CASE("a batch of one that is refused is the one to blame") {
    BatchSize size(1);
    CHECK(size.next() == 1);
    CHECK(size.refused(1) == BatchSize::Step::set_aside);
    CHECK(size.next() == 1);
}

TEST_CASE("only answers about the events themselves make them dead letters") {
    CHECK(verdict_on(200) == Verdict::delivered);
    CHECK(verdict_on(204) == Verdict::delivered);
    for (const unsigned status : {400u, 409u, 413u, 422u})
        CHECK(verdict_on(status) == Verdict::refused);
    for (const unsigned status : {301u, 401u, 403u, 404u, 408u, 429u, 500u, 503u, 0u})
        CHECK(verdict_on(status) == Verdict::later);
}

TEST_CASE("pauses double up to a minute, and are shorter by chance up to a half") {
    Backoff always_short;
    Backoff always_long;
    Millis expected = 500;
    for (int i = 0; i < 10; ++i) {
        const Millis half = expected / 2;
        CHECK(always_short.failed({}, 0) == half);
        CHECK(always_long.failed({}, static_cast<std::uint32_t>(half)) == expected);
        expected = std::min<Millis>(2 * expected, 60'000);
    }
    always_long.succeeded();
    CHECK(always_long.failed({}, 250) == 500);
}

TEST_CASE("a backend may ask for a longer pause, up to an hour") {
    Backoff backoff;
    CHECK(backoff.failed(7s, 0) == 7'000);
    CHECK(backoff.failed(0s, 0) == 500);
    CHECK(backoff.failed(1'000'000s, 0) == 3'600'000);
}

TEST_CASE("a batch is JSON with the events as they were recorded") {
    const std::vector<StoredEvent> events{{7, 0, R"({"user":"ann"})"}, {9, 3, R"({"to":"bob"})"}};
    CHECK(batch_json(0xabc, events, true) ==
          R"({"repeat":true,"events":[{"id":"abc-7","type":"presence","user":"ann"},)"
          R"({"id":"abc-9","type":"message_waiting","to":"bob"}]})");
}
