// What members of rooms get when they come back: all of it, once, and in order.
#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <future>
#include <list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/events/event_kind.h"
#include "server/session/client_description.h"
#include "tests/support/lobby.h"

using namespace pulsegate;

namespace {

using Texts = std::vector<std::string>;

BrokerSettings rooms_are_closed(bool are_closed) {
    BrokerSettings settings;
    settings.rooms_are_closed = are_closed;
    return settings;
}

/// What the log of events says: how much waits, and for which user.
Texts waiting(Lobby& lobby) {
    std::promise<EventPage> answered;
    lobby.brokers->store->read_events(
        0, kinds_of(EventKind::message_waiting), 100,
        [&](Outcome, EventPage page) { answered.set_value(std::move(page)); });
    Texts found;
    for (const StoredEvent& event : answered.get_future().get().events) {
        const auto told = boost::json::parse(event.body).as_object();
        const auto count = told.at("waiting").to_number<std::size_t>();
        found.push_back(std::to_string(count) + ' ' + std::string(told.at("to").as_string()));
    }
    std::ranges::sort(found);
    return found;
}

}  // namespace

TEST_CASE("messages of an own subscription stay when the user leaves an open room") {
    Lobby lobby;
    lobby.away.send("82 r k1 s'room/+' 01");
    lobby.part();
    lobby.say("one");
    lobby.leave(lobby.away_name);
    lobby.say("two");
    SUBCASE("at once") {}
    SUBCASE("after a crash") { lobby.brokers.crash(); }
    CHECK(lobby.return_of(lobby.away) == Texts{"one", "two"});
}

TEST_CASE(
    "a client that comes back to too many messages of very many senders costs no more than its "
    "messages") {
    constexpr unsigned most = 1000;
    BrokerSettings settings;
    settings.max_queued_messages = most;
    Lobby lobby(settings);
    Broker& home = lobby.brokers->broker(0);
    lobby.away.send("82 r k1 s'x' 01");
    lobby.part();
    for (unsigned sender = 1; sender <= 2 * most; ++sender) {
        Message message;
        message.topic = sender % 2 == 0 ? "x" : "room/r";
        message.qos = QoS::at_least_once;
        message.sender = sender;
        home.admin().publish(
            std::move(message), [](const Published&) {}, lobby.brokers->now);
    }
    lobby.brokers.settle();
    const auto work = home.work();
    const auto dropped = lobby.brokers->sum(&Counters::dropped_queue_full);
    CHECK_FALSE(lobby.return_of(lobby.away).empty());
    CHECK(lobby.brokers->sum(&Counters::dropped_queue_full) - dropped == most);
    CHECK(home.work() - work < 20 * most);
}

TEST_CASE("the cost of a return to many rooms with many subscriptions is not the product of both") {
    constexpr unsigned many = 200;
    Lobby lobby;
    Broker& home = lobby.brokers->broker(0);
    for (unsigned room = 0; room < many; ++room) {
        lobby.away.send("82 r k1 s'+/" + std::to_string(room) + "' 01");
        home.admin().rooms().add("room/" + std::to_string(room), lobby.away_name);
        home.admin().rooms().add("room/" + std::to_string(room), lobby.sender_name);
    }
    lobby.part();
    for (unsigned room = 0; room < many; ++room)
        lobby.sender.send("32 r s'room/" + std::to_string(room) + "' k1 'one'");
    lobby.brokers.settle();
    const auto work = home.work();
    CHECK(lobby.return_of(lobby.away).size() == many);
    CHECK(home.work() - work < 30 * many);
}

TEST_CASE("clients of a user are described in many turns, whatever each has missed") {
    constexpr unsigned devices = 150;
    constexpr unsigned messages = 2000;
    Lobby lobby;
    Broker& home = lobby.brokers->broker(0);
    std::list<PlainClient> all;
    for (unsigned device = 0; device < devices; ++device) {
        all.emplace_back(lobby.brokers, "device " + std::to_string(device), lobby.away_name);
        all.back().connect(false);
        all.back().lose_connection();
    }
    lobby.part();
    for (unsigned message = 0; message < messages; ++message) lobby.say("one");
    std::set<SessionId> known;
    std::uint64_t most_work = 0;
    unsigned turns = 0;
    for (bool more = true; more; ++turns) {
        const auto work = home.work();
        const auto some = home.admin().clients(lobby.away_name, known, 1000, lobby.brokers->now);
        most_work = std::max(most_work, home.work() - work);
        for (const ClientDescription& each : some.clients) {
            CHECK(known.insert(each.session).second);
            CHECK(each.queued == messages);
        }
        more = some.more;
    }
    CHECK(known.size() == devices + 1);
    CHECK(turns > 3);
    CHECK(most_work < 4096);
}

TEST_CASE(
    "a client that comes back to messages of different sizes loses the oldest of the largest "
    "sender") {
    BrokerSettings settings;
    settings.max_queued_bytes = 100 * 1024;
    Lobby lobby(settings);
    lobby.brokers->broker(0).admin().rooms().add("room/s", lobby.away_name);
    lobby.part();
    PlainClient speaker(lobby.brokers, "speaker");
    speaker.connect(true);
    const std::string older(120 * 1024, '.');
    const std::string newer(60 * 1024, '-');
    speaker.send("32 r s'room/r' k1 '" + older + "'");
    speaker.send("32 r s'room/s' k2 '" + newer + "'");
    lobby.brokers.settle();
    CHECK((lobby.return_of(lobby.away) == Texts{newer}));
}

TEST_CASE("a subscriber gets all of its room, once and in order, when rooms are closed or opened") {
    Lobby lobby;
    lobby.away.send("82 r k1 s'room/r' 01");
    lobby.part();
    lobby.say("one");
    lobby.brokers.crash(rooms_are_closed(true));
    lobby.sender.connect(true);
    lobby.say("two");
    lobby.brokers.crash(rooms_are_closed(false));
    lobby.sender.connect(true);
    lobby.say("three");
    CHECK(lobby.return_of(lobby.away) == Texts{"one", "two", "three"});
    CHECK(lobby.return_of(lobby.other) == Texts{"one", "two", "three"});
}

TEST_CASE(
    "a message that is under way between shards comes once to a client that comes back or goes") {
    Lobby lobby;  // `stranger` is behind of it as well, so it is in the log
    SUBCASE("a client that comes back gets it") {
        lobby.part();
        lobby.sender.send("32 r s'room/r' k1 'late'");
        lobby.other.connect(false);
    }
    SUBCASE("a client that goes gets it from its queue") {
        lobby.sender.send("32 r s'room/r' k1 'late'");
        lobby.other.lose_connection();
        lobby.brokers.settle();
        lobby.other.connect(false);
    }
    SUBCASE("a client that was here in between gets it from the log") {
        lobby.part();
        lobby.sender.send("32 r s'room/r' k1 'late'");
        lobby.brokers.settle();
        lobby.other.connect(false);
    }
    lobby.brokers.settle();
    const auto got = lobby.other.take_messages();
    REQUIRE(got.size() == 1);
    CHECK(got[0].text == "late");
    lobby.other.send("40 02 k" + std::to_string(got[0].packet_id));
    lobby.brokers.settle();
    lobby.other.lose_connection();
    CHECK(lobby.return_of(lobby.other).empty());
}

TEST_CASE("QoS 2 comes exactly once from a room, with a crash in between") {
    Lobby lobby;
    lobby.part();
    lobby.sender.send("34 r s'room/r' k1 'once'");
    lobby.brokers.settle();
    lobby.other.connect(false);
    lobby.brokers.settle();
    const auto got = lobby.other.take_messages();
    REQUIRE(got.size() == 1);
    CHECK(got[0].qos == QoS::exactly_once);
    const std::string id = " 02 k" + std::to_string(got[0].packet_id);
    SUBCASE("before the client has received it") {
        lobby.brokers.crash();
        lobby.other.connect(false);
        lobby.brokers.settle();
        const auto again = lobby.other.take_messages();
        REQUIRE(again.size() == 1);
        CHECK(again[0].packet_id == got[0].packet_id);  // the client knows that it is the same
    }
    SUBCASE("when the client has received it") {
        lobby.other.send("50" + id);
        lobby.brokers.settle();
        lobby.brokers.crash();
        lobby.other.connect(false);
        lobby.brokers.settle();
        CHECK(lobby.other.take() == hex(wire("20 02 01 00 | 62" + id)));
    }
    lobby.other.send("50" + id);
    lobby.other.send("70" + id);
    lobby.brokers.settle();
    lobby.other.lose_connection();
    CHECK(lobby.return_of(lobby.other).empty());
}

TEST_CASE("messages from a room have the identifiers of the subscriptions that select them") {
    BrokerSettings settings;
    SUBCASE("of an open one") {}
    SUBCASE("of a closed one") { settings.rooms_are_closed = true; }
    Lobby lobby(settings);
    PlainClient phone(lobby.brokers, "phone", lobby.away_name, Version::v5_0);
    phone.connect(false);
    phone.send("82 r k1 [ 0b 07 ] s'room/+' 01");
    phone.send("82 r k2 [ 0b 08 ] s'room/r' 02");
    phone.send("82 r k3 [ 0b 09 ] s'inbox/r' 01");
    lobby.brokers.settle();
    phone.lose_connection();
    lobby.part();
    lobby.say("one");
    phone.connect(false);
    lobby.brokers.settle();
    const auto got = phone.take_messages();
    REQUIRE(got.size() == 1);
    CHECK(got[0].identifiers.size() == 2);
    CHECK(got[0].identifiers[0] + got[0].identifiers[1] == 7 + 8);
}

// -- what is dropped --

TEST_CASE("messages that pass inbox-expiry in a room are counted if a member has missed them") {
    BrokerSettings settings;
    // Of all that this process sends: other tests may have put stamps far ahead of the clock.
    settings.inbox_expiry = -300 * 365 * Millis{86'400'000};
    Lobby lobby(settings);
    std::uint64_t lost = 1;
    SUBCASE("a member that was never here has") {}
    SUBCASE("all have got it") {
        lobby.leave(lobby.stranger_name);
        lobby.other.lose_connection();
        lost = 0;
    }
    lobby.say("one");
    REQUIRE(lobby.logs() == 1);
    if (lost == 0) CHECK(lobby.return_of(lobby.other) == Texts{"one"});
    lobby.tick();
    lobby.tick();
    CHECK(lobby.logs() == 0);
    CHECK(lobby.brokers->sum(&Counters::dropped_session_ended) == lost);
}

TEST_CASE("a message that expires in a room is counted for each member that comes back too late") {
    Lobby lobby;
    lobby.part();
    PlainClient speaker(lobby.brokers, "speaker", "speaker", Version::v5_0);
    speaker.connect(true);
    speaker.send("32 r s'room/r' k1 [ 02 w1 ] 'short'");
    lobby.brokers.settle();
    lobby.brokers->now += 2000;
    CHECK(lobby.return_of(lobby.away).empty());
    CHECK(lobby.return_of(lobby.other).empty());
    CHECK(lobby.brokers->sum(&Counters::dropped_expired) == 2);
}

TEST_CASE("when memory is exceeded, a log that takes most is halved, and no session ends") {
    Lobby lobby;
    lobby.part();
    for (int i = 10; i < 50; ++i) lobby.say(std::to_string(i));
    lobby.brokers->memory = MemoryState::used_up;
    lobby.tick();
    lobby.brokers->memory = MemoryState::plenty;
    CHECK(lobby.brokers->sum(&Counters::dropped_queue_full) == 40);  // 20 on each shard
    for (PlainClient* each : {&lobby.away, &lobby.other}) {
        const Texts texts = lobby.return_of(*each);
        REQUIRE(texts.size() == 20);
        CHECK(texts.front() == "30");
    }
}

TEST_CASE("when a log is halved, only the sender with most in it loses messages") {
    Lobby lobby;
    lobby.part();
    PlainClient flooder(lobby.brokers, "flooder");
    flooder.connect(true);
    const auto flood = [&](const std::string& text) {
        flooder.send("32 r s'room/r' k1 '" + text + "'");
        lobby.brokers.settle();
    };
    lobby.say("important");
    for (const char* text : {"1", "2", "3", "4", "5", "6", "7", "8"}) flood(text);
    lobby.say("as well");
    lobby.brokers->is_store_full = true;
    lobby.tick();
    lobby.brokers->is_store_full = false;
    CHECK(lobby.return_of(lobby.away) == Texts{"important", "7", "8", "as well"});
}

TEST_CASE("the rooms pay when they take most together, though one user's queue is the largest") {
    Lobby lobby;
    lobby.brokers->broker(0).admin().rooms().add("room/s", lobby.away_name);
    PlainClient dora(lobby.brokers, user_at(0, 2, "dora"));
    dora.connect(false);
    lobby.brokers.settle();
    dora.lose_connection();
    lobby.part();
    PlainClient speaker(lobby.brokers, "speaker");
    speaker.connect(true);
    const std::string dora_name = user_at(0, 2, "dora");
    for (const std::string text : {"1", "2", "3"})
        speaker.send("32 r s'inbox/" + dora_name + "' k1 '" + text + "'");
    for (const std::string text : {"r1", "r2"}) speaker.send("32 r s'room/r' k1 '" + text + " .'");
    for (const std::string text : {"s1", "s2"}) speaker.send("32 r s'room/s' k1 '" + text + "'");
    lobby.brokers.settle();
    lobby.brokers->is_store_full = true;
    lobby.tick();
    lobby.brokers->is_store_full = false;
    CHECK(lobby.return_of(lobby.away) == Texts{"r2 .", "s1", "s2"});
    CHECK(lobby.return_of(dora) == Texts{"1", "2", "3"});
}

TEST_CASE("a message that a full store takes for some members only is refused") {
    Lobby lobby;
    lobby.part();
    PlainClient speaker(lobby.brokers, "speaker", "speaker", Version::v5_0);
    speaker.connect(true);
    lobby.brokers.settle();
    speaker.take();
    const auto answer = [&] {
        lobby.brokers.settle();
        lobby.sender.send("40 02 k1");  // it is here, and gets the message
        lobby.brokers.settle();
        return speaker.take();
    };
    SUBCASE("it is full before") {
        lobby.brokers->store_takes_nothing_new = true;
        speaker.send("32 r s'room/r' k7 [ ] 'x'");
        CHECK(answer() == hex(wire("40 r k7 97")));
    }
    SUBCASE("it is full when the other shard gets the message") {
        speaker.send("32 r s'room/r' k7 [ ] 'x'");
        lobby.brokers->store_takes_nothing_new = true;
        CHECK(answer() == hex(wire("40 r k7 97")));
    }
    CHECK_FALSE(speaker.link().ending);
}

TEST_CASE("a full store takes what was promised before it is published") {
    Lobby lobby;
    PlainClient speaker(lobby.brokers, "speaker", "speaker", Version::v5_0);
    speaker.connect(true);
    lobby.part();
    speaker.take();
    speaker.send("32 r s'$delayed/1/room/r' k7 [ ] 'x'");
    lobby.brokers.settle();
    CHECK(speaker.take().starts_with(hex(wire("40"))));
    lobby.brokers->store_takes_nothing_new = true;
    for (int second = 0; second < 3; ++second) lobby.tick();
    lobby.brokers->store_takes_nothing_new = false;
    CHECK(lobby.return_of(lobby.away) == Texts{"x"});
    CHECK(lobby.return_of(lobby.other) == Texts{"x"});
}

// -- what backends are told --

TEST_CASE("backends are told how much waits for a disconnected member") {
    BrokerSettings settings;
    settings.recorded_events = kinds_of(EventKind::message_waiting);
    SUBCASE("of open rooms") {}
    SUBCASE("of closed ones") { settings.rooms_are_closed = true; }
    Lobby lobby(settings);
    PlainClient tablet(lobby.brokers, "tablet", lobby.away_name);
    tablet.connect(false);
    tablet.send("82 r k1 s'room/r' 01");
    lobby.brokers.settle();
    lobby.part();
    lobby.say("one");
    CHECK(waiting(lobby) == Texts{"1 " + lobby.other_name, "1 " + lobby.stranger_name});
    tablet.lose_connection();
    lobby.sender.send("32 r s'inbox/" + lobby.other_name + "' k9 'for other'");
    lobby.brokers.settle();
    lobby.say("two");
    const Texts first{"1 " + lobby.other_name,    "1 " + lobby.other_name,
                      "1 " + lobby.stranger_name, "2 " + lobby.away_name,
                      "2 " + lobby.stranger_name, "3 " + lobby.other_name};
    CHECK(waiting(lobby) == first);
    lobby.return_of(lobby.other);
    lobby.say("three");
    Texts second = first;
    second.push_back("3 " + lobby.away_name);
    second.push_back("3 " + lobby.stranger_name);
    std::ranges::sort(second);
    CHECK(waiting(lobby) == second);
}

TEST_CASE("backends are told of very many disconnected members, some in each turn") {
    constexpr std::uint64_t many = 2500;
    BrokerSettings settings;
    settings.recorded_events = kinds_of(EventKind::message_waiting);
    Lobby lobby(settings);
    Broker& home = lobby.brokers->broker(0);
    for (std::uint64_t member = 0; member < many; ++member)
        home.admin().rooms().add("room/r", "member " + std::to_string(member));
    lobby.brokers->in_slices = true;
    lobby.sender.send("32 r s'room/r' k1 'one'");
    REQUIRE(home.unfinished());
    std::uint64_t turns = 0;
    for (std::uint64_t work = home.work(); home.unfinished(); work = home.work(), ++turns) {
        home.go_on(lobby.brokers->now);
        CHECK(home.work() - work < 3000);
    }
    CHECK(turns == 2);
    CHECK(waiting(lobby).empty());  // not committed yet
    lobby.brokers.settle();
    CHECK(lobby.brokers->sum(&Counters::events_withheld) == many - 600);
}
