// Messages that wait in a room for disconnected members, and how the members get them.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/lobby.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

/// What a client is sent that comes back: `CONNACK`, then messages of QoS 1 to the room.
bool has_got(PlainClient& client, const std::string& text) {
    return client.take().find(hex(text)) != std::string::npos;
}

/// What a server with one shard has left.
struct OldStore {
    explicit OldStore(std::vector<Operation> operations) {
        SqliteLedger ledger(options);
        StoredState().read(ledger);
        CHECK(commit(ledger, std::move(operations)) == Outcome::committed);
    }

    const QuietLog quiet;
    const TemporaryFolder folder;
    FaultyDisk disk;
    const SqliteLedger::Options options{.folder = folder.path("data"),
                                        .patience = std::chrono::milliseconds(0),
                                        .first_pause = std::chrono::milliseconds(1),
                                        .vfs = disk.vfs()};
};

}  // namespace

TEST_CASE("a message to a room is kept once for each shard, however many are away") {
    Lobby lobby;
    for (int i = 0; i < 100; ++i) lobby.join("never here " + std::to_string(i));
    lobby.part();
    const auto before = lobby.brokers->broker(0).waiting() + lobby.brokers->broker(1).waiting();
    lobby.say("one");
    CHECK(lobby.brokers->broker(0).waiting() + lobby.brokers->broker(1).waiting() == before + 2);
    CHECK(lobby.logs() == 2);
}

TEST_CASE("members that come back get what they have missed in a room, once") {
    Lobby lobby;
    lobby.part();
    lobby.say("one");
    lobby.say("two");
    lobby.forget_all();
    SUBCASE("at once") {}
    SUBCASE("after a crash") {
        lobby.brokers.crash();
        lobby.sender.connect(true);
    }
    for (PlainClient* each : {&lobby.away, &lobby.other}) {
        each->connect(false);
        lobby.brokers.settle();
        const std::string got = each->take();
        const auto one = got.find(hex("one"));
        const auto two = got.find(hex("two"));
        REQUIRE(one != std::string::npos);
        REQUIRE(two != std::string::npos);
        CHECK(one < two);
        CHECK(got.find(hex("two"), two + 1) == std::string::npos);
    }
    PlainClient stranger(lobby.brokers, lobby.stranger_name);
    stranger.connect(true);
    lobby.brokers.settle();
    CHECK(has_got(stranger, "one"));
}

TEST_CASE("messages that a member has acknowledged do not come again, with or without a crash") {
    Lobby lobby;
    lobby.part();
    lobby.say("one");
    lobby.away.connect(false);
    lobby.brokers.settle();
    const std::string got = lobby.away.take();
    CHECK(got.find(hex("one")) != std::string::npos);
    lobby.away.send("40 02 " + got.substr(got.find(hex("one")) - 6, 5));  // its identifier
    lobby.brokers.settle();
    SUBCASE("without") { lobby.away.lose_connection(); }
    SUBCASE("with") {
        lobby.brokers.commit();
        lobby.brokers.crash();
    }
    lobby.away.connect(false);
    lobby.brokers.settle();
    CHECK_FALSE(has_got(lobby.away, "one"));
}

TEST_CASE(
    "a user that leaves a room while disconnected does not get the messages that wait there") {
    Lobby lobby;
    lobby.part();
    lobby.say("one");
    lobby.leave(lobby.away_name);
    lobby.join(lobby.away_name);
    lobby.say("two");
    lobby.away.connect(false);
    lobby.brokers.settle();
    const std::string got = lobby.away.take();
    CHECK(got.find(hex("one")) == std::string::npos);
    CHECK(got.find(hex("two")) != std::string::npos);
}

TEST_CASE("messages of a room come once to a member that also subscribes") {
    Lobby lobby;
    lobby.away.send("82 r k1 s'room/#' 01");
    lobby.brokers.settle();
    lobby.part();
    lobby.say("one");
    lobby.away.connect(false);
    lobby.brokers.settle();
    const std::string got = lobby.away.take();
    const auto one = got.find(hex("one"));
    REQUIRE(one != std::string::npos);
    CHECK(got.find(hex("one"), one + 1) == std::string::npos);
}

TEST_CASE("a log has the bounds of a queue, and the latest messages stay") {
    BrokerSettings settings;
    settings.max_queued_messages = 3;
    Lobby lobby(settings);
    lobby.part();
    for (const char* text : {"one", "two", "three", "four", "five"}) lobby.say(text);
    lobby.away.connect(false);
    lobby.brokers.settle();
    const std::string got = lobby.away.take();
    CHECK(got.find(hex("two")) == std::string::npos);
    CHECK(got.find(hex("three")) != std::string::npos);
    CHECK(got.find(hex("five")) != std::string::npos);
}

TEST_CASE("a log ends when no member has missed a message in it") {
    Lobby lobby;
    lobby.leave(lobby.stranger_name);
    lobby.part();
    lobby.say("one");
    CHECK(lobby.logs() == 2);
    lobby.tick();
    lobby.tick();
    CHECK(lobby.logs() == 2);
    lobby.away.connect(false);
    lobby.brokers.settle();
    lobby.tick();
    lobby.tick();
    CHECK(lobby.logs() == 1);
    lobby.leave(lobby.other_name);
    lobby.tick();
    CHECK(lobby.logs() == 0);
}

TEST_CASE("messages that wait in a room outlive a change of the number of shards") {
    Lobby lobby;
    lobby.part();
    lobby.say("one");
    lobby.brokers.crash(3);
    for (const std::string& name : {lobby.away_name, lobby.other_name, lobby.stranger_name}) {
        PlainClient member(lobby.brokers, name);
        member.connect(false);
        lobby.brokers.settle();
        CHECK(has_got(member, "one"));
        member.lose_connection();
    }
    lobby.brokers.settle();
    lobby.brokers.crash(1);
    lobby.brokers.settle();
    PlainClient member(lobby.brokers, lobby.away_name);
    member.connect(false);
    lobby.brokers.settle();
    CHECK(has_got(member, "one"));  // not acknowledged
}

TEST_CASE("the start fails if the logs for another number of shards can't be stored") {
    OldStore store(
        {PutMember{"room/r", "ann", 1},
         PutOwner{.owner = 1, .kind = OwnerKind::room, .user = "room/r", .client = "0/1"},
         put(5, {1})});
    SqliteLedger ledger(store.options);
    store.disk.break_down(SQLITE_FULL);
    CHECK_THROWS_AS(BrokerCluster({}, 2, &ledger), std::runtime_error);
    store.disk.mend();
}

TEST_CASE("the start stores that a member has a device, if an older version has not") {
    OldStore store({session(1), PutMember{"room/r", "ann", 1}, PutMember{"room/r", "bob", 1}});
    {
        PumpedLedger ledger(store.options, store.disk);
        BrokerCluster brokers({}, 1, &ledger);
        ledger.end_start();
        while (brokers.has_messages()) {
            static_cast<void>(brokers.deliver(brokers.pairs_with_messages().front()));
            brokers.end_turn();
        }
        ledger.commit(true);
    }
    SqliteLedger ledger(store.options);
    StoredState stored;
    stored.read(ledger);
    CHECK(stored.text().find("away ann 0") != std::string::npos);
    CHECK(stored.text().find("away bob") == std::string::npos);
}

TEST_CASE(
    "members without a device get the messages that wait in a room, even if inboxes are few") {
    BrokerSettings settings;
    settings.max_inboxes = 0;
    Lobby lobby(settings);
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) lobby.join(name);
    lobby.say("one");
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
        PlainClient member(lobby.brokers, name);
        member.connect(true);
        lobby.brokers.settle();
        CAPTURE(name);
        CHECK(has_got(member, "one"));  // it is not acknowledged, and waits in the inbox again
        member.lose_connection();
        lobby.brokers.settle();
    }
}

TEST_CASE("messages that a member acknowledged on a clean session do not come after two restarts") {
    Lobby lobby;
    PlainClient tablet(lobby.brokers, "tablet", lobby.away_name);
    lobby.brokers.crash();  // `away` has a session, and a position of its own
    tablet.connect(true);
    lobby.away.connect(false);
    lobby.brokers.settle();
    lobby.away.lose_connection();
    lobby.away.connect(true);  // its session ends while the tablet is there
    lobby.brokers.settle();
    PlainClient speaker(lobby.brokers, "speaker");
    speaker.connect(true);
    speaker.send("32 r s'room/r' k1 'one'");
    lobby.brokers.settle();
    for (PlainClient* each : {&tablet, &lobby.away}) {
        REQUIRE(has_got(*each, "one"));
        each->send("40 02 k1");
    }
    lobby.brokers.settle();
    lobby.brokers.crash();
    tablet.connect(true);
    lobby.brokers.settle();
    CHECK_FALSE(has_got(tablet, "one"));
}

TEST_CASE("a member that comes back gets the latest of all rooms, as much as one queue holds") {
    BrokerSettings settings;
    settings.max_queued_messages = 3;
    Lobby lobby(settings);
    lobby.brokers->broker(0).admin().rooms().add("room/s", lobby.away_name);
    lobby.part();
    PlainClient speaker(lobby.brokers, "speaker");
    speaker.connect(true);
    int said = 0;
    for (const char* text : {"r1", "s1", "r2", "s2", "r3", "s3"}) {
        const std::string room = std::string("room/") + text[0];
        speaker.send("32 r s'" + room + "' k" + std::to_string(++said) + " '" + text + "'");
        lobby.brokers.settle();
    }
    lobby.away.connect(false);
    lobby.brokers.settle();
    const std::string got = lobby.away.take();
    CHECK(got.find(hex("r2")) == std::string::npos);
    const auto first = got.find(hex("s2"));
    const auto second = got.find(hex("r3"));
    const auto third = got.find(hex("s3"));
    REQUIRE(third != std::string::npos);
    CHECK(first < second);
    CHECK(second < third);
}

TEST_CASE("a user that fills one room takes nothing from returning members of another room") {
    BrokerSettings settings;
    settings.max_queued_messages = 4;
    Lobby lobby(settings);
    lobby.brokers->broker(0).admin().rooms().add("room/s", lobby.away_name);
    lobby.part();
    PlainClient speaker(lobby.brokers, "speaker");
    PlainClient flooder(lobby.brokers, "flooder");
    for (PlainClient* each : {&speaker, &flooder}) each->connect(true);
    for (const char* text : {"s1", "s2"})
        speaker.send("32 r s'room/s' k" + std::string(1, text[1]) + " '" + text + "'");
    for (const char* text : {"r1", "r2", "r3", "r4"})
        flooder.send("32 r s'room/r' k" + std::string(1, text[1]) + " '" + text + "'");
    lobby.brokers.settle();
    CHECK(lobby.return_of(lobby.away) == std::vector<std::string>{"s1", "s2", "r3", "r4"});
}

TEST_CASE("when the store is full, a log that takes most is halved, and no session ends") {
    Lobby lobby;
    lobby.part();
    for (const char* text : {"one", "two", "six", "ten"}) lobby.say(text);
    lobby.brokers->is_store_full = true;
    lobby.tick();
    lobby.brokers->is_store_full = false;
    for (PlainClient* each : {&lobby.away, &lobby.other}) {
        each->connect(false);
        lobby.brokers.settle();
        const std::string got = each->take();
        CHECK(got.starts_with("20 02 01 00"));  // its session is present
        CHECK(got.find(hex("two")) == std::string::npos);
        CHECK(got.find(hex("six")) != std::string::npos);
        CHECK(got.find(hex("ten")) != std::string::npos);
    }
}
