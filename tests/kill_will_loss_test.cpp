#include <doctest/doctest.h>

#include "loadgen/kill/will_loss.h"

using namespace pulsegate::kill;
using namespace std::chrono_literals;

namespace {

using Promise = WillLoss::Promise;

constexpr auto limit = 30s;
constexpr Time connected{1h};
constexpr Time gone = connected + 10s;

WillLoss vanished(Duration delay) {
    return {{.delay = delay, .since = connected, .limit = limit}, gone, false};
}
WillLoss said_goodbye() { return {{.delay = 2s, .since = connected}, gone, true}; }

}  // namespace

TEST_CASE("kill: the will of a client that vanished comes, without a delay in any case") {
    const auto loss = vanished(0s);
    CHECK(loss.promise(gone) == Promise::comes);
    CHECK_FALSE(loss.is_over(gone + 1s));
    CHECK(loss.is_over(gone + 2s));
}

TEST_CASE("kill: a client that is back before the delay of its will takes it back") {
    const auto loss = vanished(2s);
    CHECK(loss.promise(gone + 1s) == Promise::must_not_come);
    CHECK(loss.promise(gone + 2s) == Promise::open);
    CHECK(loss.promise(gone + 4s) == Promise::comes);
}

TEST_CASE("kill: a client that was seen late after its return may have been back in time") {
    const auto loss = vanished(2s);
    CHECK(loss.promise(gone + 4s, 1s) == Promise::open);
    CHECK(loss.promise(gone + 5s, 1s) == Promise::comes);
    CHECK(loss.promise(gone + 1s, 1s) == Promise::must_not_come);
}

TEST_CASE("kill: a slow broker has more time for a will") {
    const WillLoss loss{
        {.delay = 2s, .since = connected, .limit = limit, .slowness = 3}, gone, false};
    CHECK(loss.promise(gone + 1s) == Promise::must_not_come);
    CHECK(loss.promise(gone + 6s) == Promise::open);
    CHECK(loss.promise(gone + 7s) == Promise::comes);
}

TEST_CASE("kill: after DISCONNECT no will comes") {
    CHECK(said_goodbye().promise(gone + 1h) == Promise::must_not_come);
}

TEST_CASE("kill: the wills of clients that the broker cut off when it ended come") {
    auto loss = vanished(0s);
    loss.broker_ended(BrokerEnd::stop, gone, false);
    CHECK_FALSE(loss.is_over(gone + 1h));
    CHECK(loss.promise(gone + 1h) == Promise::comes);
    loss.broker_serves({{}, gone + 10s}, gone + 10s);
    CHECK_FALSE(loss.is_over(gone + 11s));
    CHECK(loss.is_over(gone + 12s));
}

TEST_CASE("kill: a delay may begin anew with the broker") {
    auto loss = vanished(2s);
    loss.broker_ended(BrokerEnd::stop, gone, false);
    loss.broker_serves({{}, gone + 1s}, gone + 1s);
    CHECK(loss.promise(gone + 1s) == Promise::must_not_come);
    CHECK(loss.promise(gone + 4s) == Promise::open);
    CHECK(loss.promise(gone + 5s) == Promise::comes);
}

TEST_CASE("kill: changes that the broker may not have written before its end are not judged") {
    auto login = WillLoss({.delay = 0s, .since = gone - 100ms}, gone, false);
    login.broker_ended(BrokerEnd::stop, gone, false);
    CHECK(login.promise(gone + 1h) == Promise::open);

    auto goodbye = said_goodbye();
    goodbye.broker_ended(BrokerEnd::stop, gone + 100ms, false);
    CHECK(goodbye.promise(gone + 1h) == Promise::open);

    auto back = vanished(2s);
    back.broker_ended(BrokerEnd::stop, gone + 1s, true);
    CHECK(back.promise(gone + 1h) == Promise::open);

    auto known = said_goodbye();
    known.broker_ended(BrokerEnd::stop, gone + 1s, false);
    CHECK(known.promise(gone + 1h) == Promise::must_not_come);
}

TEST_CASE("kill: times that a step of the clock changes are not judged") {
    auto forward = vanished(2s);
    forward.broker_ended(BrokerEnd::stop, gone, false);
    forward.broker_serves({1h, gone + 1s}, gone + 1s);
    CHECK(forward.promise(gone + 1s) == Promise::open);
    CHECK(forward.promise(gone + 5s) == Promise::comes);

    auto back = vanished(2s);
    back.broker_ended(BrokerEnd::stop, gone, false);
    back.broker_serves({-1h, gone + 1s}, gone + 1s);
    CHECK(back.promise(gone + 1s) == Promise::must_not_come);
    CHECK(back.promise(gone + 5s) == Promise::open);
}

TEST_CASE("kill: a client that is back after a kill before its limit takes its will back") {
    for (const Duration delay : {Duration(0s), Duration(2s)}) {
        auto loss = vanished(delay);
        loss.broker_ended(BrokerEnd::kill, gone, false);
        CHECK_FALSE(loss.is_over(gone + 1h));
        const Time serves = gone + 10s;
        loss.broker_serves({{}, serves}, serves);
        CHECK(loss.not_before() == serves + limit + delay);
        CHECK(loss.promise(serves + limit + delay - 1s) == Promise::must_not_come);
        CHECK(loss.promise(serves + limit + delay) == Promise::open);
        CHECK_FALSE(loss.is_over(serves + limit + delay + 1s));
        CHECK(loss.promise(serves + limit + delay + 2s) == Promise::comes);
        // The limit begins anew with another kill, and a stop ends it.
        loss.broker_ended(BrokerEnd::kill, serves + 20s, false);
        loss.broker_serves({{}, serves + 21s}, serves + 21s);
        CHECK(loss.not_before() == serves + 21s + limit + delay);
        loss.broker_ended(BrokerEnd::stop, serves + 40s, false);
        loss.broker_serves({{}, serves + 41s}, serves + 41s);
        CHECK_FALSE(loss.not_before());
        CHECK(loss.promise(serves + 45s) == Promise::comes);
    }
}

TEST_CASE("kill: a client that went just before a kill may be awaited after it") {
    auto loss = vanished(0s);
    loss.broker_ended(BrokerEnd::kill, gone + 100ms, false);
    loss.broker_serves({{}, gone + 1s}, gone + 1s);
    CHECK_FALSE(loss.not_before());
    CHECK(loss.promise(gone + 2s) == Promise::open);
    CHECK(loss.promise(gone + 1s + limit + 2s) == Promise::comes);
    auto known = vanished(0s);
    known.broker_ended(BrokerEnd::kill, gone + 1s, false);
    known.broker_serves({{}, gone + 2s}, gone + 2s);
    CHECK(known.promise(gone + 2s) == Promise::comes);
}
