#include "server/session/state/exchanges.h"

#include <doctest/doctest.h>

#include "tests/support/gateway.h"

using namespace pulsegate;

TEST_CASE("an identifier that was released lately may be released again, and no other") {
    Outbox::Totals totals;
    Exchanges exchanges;
    CHECK_FALSE(exchanges.release(1));
    exchanges.received(totals, 1);
    CHECK(exchanges.release(1));
    CHECK_FALSE(exchanges.unreleased(1));
    CHECK(exchanges.release(1));
    CHECK_FALSE(exchanges.release(2));
    exchanges.change_outbox(&Outbox::interrupt);  // the connection is lost
    CHECK(exchanges.release(1));
    exchanges.clear();  // the session is
    CHECK_FALSE(exchanges.release(1));
}

TEST_CASE("only the last 256 that were released are remembered") {
    Outbox::Totals totals;
    Exchanges exchanges;
    for (std::uint16_t id = 1; id <= 1000; ++id) {
        exchanges.received(totals, id);
        CHECK(exchanges.release(id));
    }
    CHECK(exchanges.release(1000));
    CHECK(exchanges.release(745));
    CHECK_FALSE(exchanges.release(744));
    // One that is used again takes no second place.
    exchanges.received(totals, 745);
    CHECK(exchanges.release(745));
    CHECK(exchanges.release(746));
}

TEST_CASE("a client that lost the PUBCOMP with its connection is told of a success") {
    Gateway gateway;
    const std::string connect = "10 r s'MQTT' 05 00 k10 [ 11 w60 ] s'p'";
    Conversation first(gateway);
    first.send(connect).expect("20 r 00 00 [ " + std::string(promises) + " ]");
    first.send("34 r s'x' k7 [ ] 'x'").expect("50 02 k7").send("62 02 k7").expect("70 02 k7");
    first.close();
    Conversation second(gateway);
    second.send(connect).expect("20 r 01 00 [ " + std::string(promises) + " ]");
    second.send("62 02 k7").expect("70 02 k7").send("62 02 k8").expect("70 03 k8 92");
}
