#include <doctest/doctest.h>

#include "loadgen/kill/will_loss.h"

using namespace pulsegate::kill;
using namespace std::chrono_literals;

namespace {

using Promise = WillLoss::Promise;

constexpr Time connected{1h};
constexpr Time gone = connected + 10s;

WillLoss vanished(Duration delay) { return {{.delay = delay, .since = connected}, gone, false}; }
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

TEST_CASE("kill: after DISCONNECT no will comes") {
    CHECK(said_goodbye().promise(gone + 1h) == Promise::must_not_come);
}

TEST_CASE("kill: the wills of clients that the broker cut off when it ended come") {
    auto loss = vanished(0s);
    loss.broker_ended(gone, false);
    CHECK_FALSE(loss.is_over(gone + 1h));
    CHECK(loss.promise(gone + 1h) == Promise::comes);
    loss.broker_serves({}, gone + 10s);
    CHECK_FALSE(loss.is_over(gone + 11s));
    CHECK(loss.is_over(gone + 12s));
}

TEST_CASE("kill: a delay may begin anew with the broker") {
    auto loss = vanished(2s);
    loss.broker_ended(gone, false);
    loss.broker_serves({}, gone + 1s);
    CHECK(loss.promise(gone + 1s) == Promise::must_not_come);
    CHECK(loss.promise(gone + 4s) == Promise::open);
    CHECK(loss.promise(gone + 5s) == Promise::comes);
}

TEST_CASE("kill: what the broker may not have written down before its end is left open") {
    auto login = WillLoss({.delay = 0s, .since = gone - 100ms}, gone, false);
    login.broker_ended(gone, false);
    CHECK(login.promise(gone + 1h) == Promise::open);

    auto goodbye = said_goodbye();
    goodbye.broker_ended(gone + 100ms, false);
    CHECK(goodbye.promise(gone + 1h) == Promise::open);

    auto back = vanished(2s);
    back.broker_ended(gone + 1s, true);
    CHECK(back.promise(gone + 1h) == Promise::open);

    auto known = said_goodbye();
    known.broker_ended(gone + 1s, false);
    CHECK(known.promise(gone + 1h) == Promise::must_not_come);
}

TEST_CASE("kill: a step of the clock leaves open what hangs on it") {
    auto forward = vanished(2s);
    forward.broker_ended(gone, false);
    forward.broker_serves(1h, gone + 1s);
    CHECK(forward.promise(gone + 1s) == Promise::open);
    CHECK(forward.promise(gone + 5s) == Promise::comes);

    auto back = vanished(2s);
    back.broker_ended(gone, false);
    back.broker_serves(-1h, gone + 1s);
    CHECK(back.promise(gone + 1s) == Promise::must_not_come);
    CHECK(back.promise(gone + 5s) == Promise::open);
}
