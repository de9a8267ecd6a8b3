// What clients are told while the store refuses everything.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/faulty_vfs.h"

using namespace pulsegate;

namespace {

void mend_store(DurableCluster& brokers) {
    brokers.disk().mend();
    brokers->now += 1000;
    while (brokers->broker(0).tick(brokers->now)) {
    }
    brokers.settle();
}

}  // namespace

TEST_CASE("a publisher of 5.0 at QoS 2 without a stored session is refused, and stays") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk", "desk", Version::v5_0);
    arrive(phone, "x");
    brokers.settle();
    phone.lose_connection();
    desk.connect(true);
    brokers.settle();
    desk.take();
    brokers.disk().break_down(SQLITE_FULL);
    desk.send("34 r s'x' k5 [ ] 'first'");
    brokers.settle();
    CHECK(desk.take() == hex(wire("50 r k5 97")));
    CHECK_FALSE(desk.link().ending);
    mend_store(brokers);
    desk.send("34 r s'x' k5 [ ] 'second'");  // the identifier is free
    brokers.settle();
    CHECK(desk.take() == hex(wire("50 r k5")));
    phone.connect(false);
    brokers.settle();
    std::vector<std::string> texts;
    for (const auto& message : phone.take_messages()) texts.push_back(message.text);
    // The first one was handed in already, and is stored when the store works again.
    CHECK(texts == std::vector<std::string>{"first", "second"});
}
