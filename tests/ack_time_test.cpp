#include "server/session/terms/ack_time.h"

#include <doctest/doctest.h>

#include <memory>

#include "server/session/sending/ack_deadlines.h"
#include "server/session/state/session.h"

using namespace pulsegate;

namespace {

AckTime after(int count, Millis time, AckTime so_far = {}) {
    for (int i = 0; i < count; ++i) so_far.add(time);
    return so_far;
}

}  // namespace

TEST_CASE("an unknown client is waited for as long as any") {
    CHECK(AckTime().patience() == 100);
    CHECK(sizeof(AckTime) == 1);
}

TEST_CASE("a client is waited for twice as long as it takes, and 20 ms") {
    CHECK(after(1, 0).patience() == 20);
    CHECK(after(1, 10).patience() == 40);
    CHECK(after(20, 30).patience() == 80);
    CHECK(after(1, 60).patience() == 100);
    CHECK(after(1, 100).patience() == 100);
    CHECK(after(1, 101).patience() == 0);
    CHECK(after(1, 1'000'000).patience() == 0);
    CHECK(after(1, -5).patience() == 20);
}

TEST_CASE("the mean follows the client, also by small steps") {
    CHECK(after(1, 1000, after(50, 10)).patience() > 40);
    CHECK(after(100, 12, after(1, 10)).patience() == 44);
    CHECK(after(100, 8, after(1, 10)).patience() == 36);
    CHECK(after(20, 1000, after(50, 10)).patience() == 0);
    CHECK(after(9, 10, after(50, 1000)).patience() > 0);
    AckTime late;
    late.add_late();
    CHECK(late.patience() == 0);
}

TEST_CASE("the due deadlines are found, and the next one is known") {
    AckDeadlines deadlines;
    User user("ann");
    Session session(1, user, "phone", 0);
    const auto at = [&](Millis due) { return std::make_unique<Unstored>(session, PartRef(), due); };
    CHECK_FALSE(deadlines.next());
    CHECK_FALSE(deadlines.due(1'000'000));
    const auto late = at(1'000'100);
    auto early = at(1'000'007);
    const auto stale = at(1'000'000);  // by a clock that was behind
    deadlines.add(*late);
    deadlines.add(*early);
    deadlines.add(*stale);
    CHECK(deadlines.next() == 1'000'000);
    CHECK(deadlines.due(1'000'000) == stale.get());
    stale->unlink();
    CHECK_FALSE(deadlines.due(1'000'006));
    CHECK(deadlines.due(1'000'007) == early.get());
    CHECK(deadlines.next() == 1'000'007);
    early.reset();  // acknowledged
    CHECK_FALSE(deadlines.due(1'000'099));
    CHECK(deadlines.due(2'000'000) == late.get());  // the loop was held up
    late->unlink();
    CHECK_FALSE(deadlines.next());
}
