#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/truth/message.h"
#include "protocol/encode.h"
#include "tests/support/lab_swarm.h"

// Faults of a server that a swarm of clients notices, and what only looks like one.

namespace pulsegate {

using load::Count;
using load::Group;
using load::Scenario;

namespace {

Group& add_group(Scenario& scenario, std::uint32_t clients) {
    Group& group = scenario.groups.emplace_back();
    group.clients = clients;
    return group;
}

std::string presence_notation(const std::string& filter, std::string_view state, int version) {
    const std::string user = filter.substr(filter.find('/') + 1);
    const std::string cause = state == "online" ? "login" : "timeout";
    return "32 r s'" + filter + "' k9 '{\"user\":\"" + user + "\",\"state\":\"" +
           std::string(state) + "\",\"version\":" + std::to_string(version) + ",\"cause\":\"" +
           cause + "\",\"devices\":[]}'";
}

/// One client in one room, to which it writes at QoS 2, and nobody else does.
Scenario room_of_one() {
    Scenario scenario;
    Group& group = add_group(scenario, 1);
    group.rooms = 1;
    group.to_what = Group::To::rooms;
    group.contacts = 1;
    group.messages = 1;
    group.qos = {0, 0, 1};
    return scenario;
}

/// Message `sequence` from this client to the room, as the server may send it.
std::string room_message(std::uint32_t sequence, QoS qos, bool dup = false,
                         std::uint16_t packet_id = 7, Version version = Version::v3_1_1,
                         Properties properties = {}) {
    Buffer payload;
    load::write_message({.planned = load::Clock::now(), .sequence = sequence}, 64, payload);
    Publish message;
    message.topic = "loadgen/0/room/0";
    message.payload = payload;
    message.qos = qos;
    message.dup = dup;
    message.packet_id = packet_id;
    Buffer bytes;
    message.properties = properties;
    encode(message, version, bytes);
    return bytes;
}

}  // namespace

TEST_CASE("presence of a user that only other clients watch is misdirected") {
    Scenario scenario;
    add_group(scenario, 2);
    for (const std::uint32_t watched : {1u, 2u}) {
        Group& watchers = add_group(scenario, 1);
        watchers.watches = watched;
        watchers.watched = 0;
    }
    LabSwarm lab(scenario, true);
    std::vector<LabSwarmClient*> clients;
    for (int count = 0; count < 4; ++count) clients.push_back(&lab.log_in());
    LabSwarmClient& watcher =
        **std::ranges::find(clients, std::size_t{2},
                            [](const LabSwarmClient* client) { return client->filters.size(); });
    const std::string its_own = watcher.filters[1];
    const std::string of_others =
        its_own.ends_with('0') ? "presence/loadgen-0-1" : "presence/loadgen-0-0";

    lab.send(watcher, presence_notation(its_own, "online", 7));
    CHECK(lab.count(Count::presence_changes) == 1);
    CHECK(lab.count(Count::messages_misdirected) == 0);
    lab.send(watcher, presence_notation(of_others, "online", 7));
    CHECK(lab.count(Count::presence_changes) == 1);
    CHECK(lab.count(Count::messages_misdirected) == 1);
}

TEST_CASE("a watcher that comes later must soon be told what others were told before") {
    using namespace std::chrono_literals;
    Scenario scenario;
    scenario.tolerance = 50ms - Scenario::server_tick;  // so it has 50 ms
    add_group(scenario, 1);
    Group& watchers = add_group(scenario, 2);
    watchers.watches = 1;
    watchers.watched = 0;
    LabSwarm lab(scenario, true);
    std::vector<LabSwarmClient*> early;
    LabSwarmClient* late = nullptr;
    for (int count = 0; count < 3; ++count) {
        LabSwarmClient& client = lab.accept();
        lab.let_in(client);
        const bool watches = client.filters.size() > 1;
        if (watches && !late)
            late = &client;
        else
            early.push_back(&client);
    }
    REQUIRE(late);
    const std::string& filter = late->filters.at(1);
    for (LabSwarmClient* client : early) {
        lab.grant(*client);
        if (client->filters.size() > 1) lab.send(*client, presence_notation(filter, "online", 7));
    }
    lab.swarm().go(load::Clock::now());
    const auto until_later = [&](load::Duration wait) {
        lab.until([&, end = load::Clock::now() + wait] { return load::Clock::now() > end; });
    };
    until_later(60ms);

    SUBCASE("and is told nothing") {
        lab.grant(*late);
        lab.until([&] { return lab.count(Count::presence_outdated) == 1; });
    }
    SUBCASE("and is told an old state") {
        lab.send(*late, presence_notation(filter, "online", 6));
        lab.grant(*late);
        lab.until([&] { return lab.count(Count::presence_outdated) == 1; });
    }
    SUBCASE("unless its subscription was refused") {
        lab.grant(*late, {2, '\x80'});
        until_later(200ms);
        CHECK(lab.count(Count::presence_outdated) == 0);
    }
    SUBCASE("and is told it") {
        lab.send(*late, presence_notation(filter, "online", 7));
        lab.grant(*late);
        until_later(200ms);
        CHECK(lab.count(Count::presence_outdated) == 0);
    }
}

TEST_CASE("refused subscriptions are counted, those to presence by themselves") {
    Scenario scenario;
    Group& group = add_group(scenario, 1);
    group.rooms = 3;
    group.rooms_each = 2;
    group.watches = 1;
    LabSwarm lab(scenario, true);
    LabSwarmClient& client = lab.accept();
    lab.let_in(client);
    REQUIRE(client.filters.size() == 4);
    const auto counts = [&] {
        return std::array{lab.count(Count::connected), lab.count(Count::filters_refused),
                          lab.count(Count::presence_filters_refused),
                          lab.count(Count::presence_filters_granted)};
    };
    using Counts = std::array<std::uint64_t, 4>;

    SUBCASE("none is") {
        lab.grant(client);
        CHECK(counts() == Counts{1, 0, 0, 1});
    }
    SUBCASE("a room is") {
        lab.grant(client, {2, 2, '\x80', 2});
        CHECK(counts() == Counts{1, 1, 0, 1});
    }
    SUBCASE("presence is") {
        lab.grant(client, {2, 2, 2, '\x80'});
        CHECK(counts() == Counts{1, 0, 1, 0});
    }
    SUBCASE("the client's own topic is, which is a login that failed") {
        lab.grant(client, {'\x80', 2, 2, 2});
        CHECK(counts() == Counts{0, 0, 0, 0});
        CHECK(lab.count(Count::connect_failed) == 1);
    }
}

TEST_CASE("each subscription has a QoS of its own, by which its messages are judged") {
    LabSwarm lab(room_of_one());
    LabSwarmClient& client = lab.accept();
    lab.let_in(client);
    REQUIRE(client.filters.size() == 2);
    const auto damaged = [&](std::uint32_t sequence, QoS qos) {
        const auto before = lab.count(Count::messages_damaged);
        client.connection.write(room_message(sequence, qos));
        lab.settle();
        CHECK(lab.count(Count::messages_received) == sequence + 1);
        return lab.count(Count::messages_damaged) > before;
    };
    SUBCASE("only the client's own topic has a lower one") {
        lab.grant(client, {1, 2});
        CHECK_FALSE(damaged(0, QoS::exactly_once));
        CHECK(damaged(1, QoS::at_least_once));
        CHECK(damaged(2, QoS::at_most_once));
    }
    SUBCASE("only the room has a lower one") {
        lab.grant(client, {2, 0});
        CHECK_FALSE(damaged(0, QoS::at_most_once));
        CHECK(damaged(1, QoS::at_least_once));
    }
    SUBCASE("before the SUBACK it is not known") {
        CHECK_FALSE(damaged(0, QoS::at_least_once));
        lab.grant(client, {2, 1});
        CHECK_FALSE(damaged(1, QoS::at_least_once));
        CHECK(damaged(2, QoS::at_most_once));
    }
}

TEST_CASE("a message that names another user as its sender is forged") {
    Scenario scenario = room_of_one();
    scenario.groups.front().version = Version::v5_0;
    LabSwarm lab(scenario);
    LabSwarmClient& client = lab.log_in();
    const auto forged = [&](const PropertyList& properties) {
        const std::uint64_t before = lab.count(Count::messages_forged);
        const auto sequence = static_cast<std::uint32_t>(lab.count(Count::messages_received));
        client.connection.write(room_message(sequence, QoS::exactly_once, false,
                                             static_cast<std::uint16_t>(sequence + 1),
                                             Version::v5_0, properties.view()));
        lab.until([&] { return lab.count(Count::messages_received) == sequence + 1; });
        CHECK(lab.count(Count::messages_damaged) == 0);
        return lab.count(Count::messages_forged) > before;
    };
    CHECK_FALSE(forged({}));
    CHECK_FALSE(forged(PropertyList().add_user("from", client.id)));
    CHECK_FALSE(forged(PropertyList().add_user("form", "mallory")));
    CHECK(forged(PropertyList().add_user("from", "mallory")));
    CHECK(forged(PropertyList().add_user("from", client.id).add_user("from", "mallory")));
}

TEST_CASE("violations of the protocol are counted in each state of the client") {
    Scenario scenario;
    add_group(scenario, 1);
    LabSwarm lab(scenario);
    LabSwarmClient& client = lab.accept();
    SUBCASE("a message before the CONNACK") { lab.send(client, "30 r s'a' 'x'"); }
    SUBCASE("a session, although none was to be kept") { lab.send(client, "20 r 01 00"); }
    SUBCASE("bytes that are no packet") { lab.send(client, "20 r 02 00"); }
    SUBCASE("a SUBACK of nothing") {
        lab.let_in(client);
        lab.send(client, "90 r k99 00");
    }
    SUBCASE("a second CONNACK") {
        lab.let_in(client);
        lab.grant(client);
        lab.send(client, "20 r 00 00");
        CHECK(lab.count(Count::connected) == 1);
    }
    SUBCASE("a PINGRESP that nobody has asked for") {
        lab.let_in(client);
        lab.grant(client);
        lab.send(client, "d0 r");
        CHECK(lab.count(Count::connected) == 1);
    }
    CHECK(lab.count(Count::violations) == 1);
    CHECK(lab.count(Count::false_offline) == 0);
}

TEST_CASE("a login that is refused or lost is no violation of the protocol") {
    Scenario scenario;
    add_group(scenario, 1);
    LabSwarm lab(scenario);
    LabSwarmClient& client = lab.accept();
    SUBCASE("refused") { lab.send(client, "20 r 00 05"); }
    SUBCASE("refused as busy") { lab.send(client, "20 r 00 03"); }
    SUBCASE("closed") {
        client.connection.close();
        lab.settle();
    }
    SUBCASE("reset") {
        client.connection.reset();
        lab.settle();
    }
    lab.until(
        [&] { return lab.count(Count::connect_failed) + lab.count(Count::refused_busy) == 1; });
    CHECK(lab.count(Count::violations) == 0);
}

TEST_CASE("no session is present at the first login of a run") {
    Scenario scenario;
    add_group(scenario, 1).kept_session = true;
    LabSwarm lab(scenario);
    LabSwarmClient& client = lab.accept();
    SUBCASE("but one that was made up") {
        lab.let_in(client, "20 r 01 00");
        CHECK(lab.count(Count::violations) == 1);
    }
    SUBCASE("but that of an attempt of which the answer was lost") {
        client.connection.reset();
        lab.until([&] { return lab.count(Count::connect_failed) == 1; });
        lab.let_in(lab.accept(), "20 r 01 00");
        CHECK(lab.count(Count::violations) == 0);
    }
}

TEST_CASE(
    "a server that breaks the protocol towards a silent client is not judged by the time of the "
    "close") {
    Scenario scenario;
    add_group(scenario, 1).silent = 1;
    LabSwarm lab(scenario);
    LabSwarmClient& client = lab.log_in();
    lab.swarm().go(load::Clock::now());
    CHECK(hex(lab.packet_of(client)) == "c0 00");
    lab.until([&] { return lab.count(Count::silent) == 1; });
    lab.send(client, "d0 r | e0 r");
    CHECK(lab.count(Count::violations) == 1);
    CHECK(lab.count(Count::closed_unclear) == 1);
    CHECK(lab.count(Count::closed_early) == 0);
}

TEST_CASE("an overdue ping counts as unanswered, for each way in which its client leaves") {
    Scenario scenario;
    scenario.ping_within = std::chrono::nanoseconds(1);
    Group& group = add_group(scenario, 1);
    group.keepalive = std::chrono::seconds(3);  // within which it pings for the first time
    const auto at_once = std::chrono::milliseconds(1);
    bool stays_silent = false;
    SUBCASE("to nap") {
        group.online = {at_once, at_once};
        group.away = {std::chrono::hours(1), std::chrono::hours(1)};
        SUBCASE("with DISCONNECT") { group.leave = load::Leave::disconnect; }
        SUBCASE("with a reset") { group.leave = load::Leave::reset; }
        SUBCASE("without a word") { group.leave = load::Leave::vanish; }
    }
    SUBCASE("for another network") { group.network_changes = 1000; }
    SUBCASE("in a storm") { group.storm = true; }
    SUBCASE("by silence, after which it is closed") { group.silent = 1; }
    SUBCASE("by silence, and it is never closed") {
        group.silent = 1;
        stays_silent = true;
    }
    for (const bool is_answered : {true, false}) {
        CAPTURE(is_answered);
        LabSwarm lab(scenario);
        LabSwarmClient& client = lab.log_in();
        REQUIRE(hex(lab.packet_of(client)) == "c0 00");
        if (is_answered || group.silent > 0) lab.send(client, "d0 r");
        lab.settle();
        lab.swarm().go(load::Clock::now());
        lab.until([&] {
            return lab.count(Count::naps) + lab.count(Count::network_changes) +
                       lab.count(Count::vanished) + lab.count(Count::silent) >
                   0;
        });
        if (group.silent > 0) {
            if (is_answered) lab.send(client, "d0 r");
            lab.settle();
            if (!stays_silent) client.connection.close();
        }
        lab.settle();
        lab.swarm().judge(load::Clock::now());
        CHECK(lab.count(Count::pings_unanswered) == (is_answered ? 0 : 1));
    }
}

TEST_CASE("under an unreleased identifier only the same message may come") {
    LabSwarm lab(room_of_one());
    LabSwarmClient& client = lab.log_in();
    std::string message = room_message(0, QoS::exactly_once);
    const auto send = [&](const std::string& bytes) {
        client.connection.write(bytes);
        lab.settle();
    };
    send(message);
    const auto set_flag = [&](int flag) {
        message.front() = static_cast<char>(message.front() | flag);
    };
    set_flag(8);  // DUP
    SUBCASE("the same one") {
        send(message);
        CHECK(lab.count(Count::messages_damaged) == 0);
        CHECK(lab.count(Count::messages_repeated_qos2) == 0);
    }
    SUBCASE("another one") {
        send(room_message(1, QoS::exactly_once, true));
        CHECK(lab.count(Count::messages_damaged) == 1);
    }
    SUBCASE("the same one with RETAIN") {
        set_flag(1);
        send(message);
        CHECK(lab.count(Count::messages_damaged) == 1);
    }
    SUBCASE("the same one to another topic") {
        message[message.find("room/0") + 5] = '1';
        send(message);
        CHECK(lab.count(Count::messages_damaged) == 1);
    }
    SUBCASE("another one, after the release") {
        lab.send(client, "62 r k7");
        send(room_message(1, QoS::exactly_once));
        CHECK(lab.count(Count::messages_damaged) == 0);
        CHECK(lab.count(Count::messages_received) == 2);
    }
}

TEST_CASE("messages that the server never releases are counted, unless the end may have cut them") {
    for (const bool is_cut : {false, true}) {
        CAPTURE(is_cut);
        Scenario scenario = room_of_one();
        scenario.ping_within = std::chrono::nanoseconds(1);
        scenario.drain = is_cut ? load::Duration(std::chrono::hours(1)) : load::Duration(1);
        LabSwarm lab(scenario);
        LabSwarmClient& client = lab.log_in();
        client.connection.write(room_message(0, QoS::exactly_once, false, 7));
        client.connection.write(room_message(1, QoS::exactly_once, false, 8));
        lab.send(client, "62 r k7");
        lab.settle();
        lab.swarm().drain(load::Clock::now());
        lab.swarm().judge(load::Clock::now());
        CHECK(lab.count(Count::unreleased) == (is_cut ? 0 : 1));
    }
}

TEST_CASE("an offline that comes while the generator stands still is no ghost") {
    using namespace std::chrono_literals;
    Scenario scenario;
    scenario.limit = 100ms;
    scenario.tolerance = 100ms - Scenario::server_tick;  // so a ghost is one after 200 ms
    add_group(scenario, 1).silent = 1;
    Group& watchers = add_group(scenario, 1);
    watchers.watches = 1;
    watchers.watched = 0;
    LabSwarm lab(scenario, true);
    LabSwarmClient* silent = &lab.log_in();
    LabSwarmClient* watcher = &lab.log_in();
    if (silent->filters.size() > 1) std::swap(silent, watcher);
    const std::string& filter = watcher->filters.at(1);
    lab.send(*watcher, presence_notation(filter, "online", 1));
    lab.swarm().go(load::Clock::now());
    lab.until([&] { return lab.count(Count::silent) == 1; });

    bool has_stalled = false;
    lab.until([&] {
        if (std::exchange(has_stalled, true)) return lab.count(Count::presence_changes) == 2;
        watcher->send(presence_notation(filter, "offline", 2));
        const auto end = load::Clock::now() + 500ms;
        while (load::Clock::now() < end) {
        }
        return false;
    });
    for (const auto& frame : lab.swarm().flows())
        REQUIRE(lab.swarm().add_flows(as_bytes(frame.body)));
    lab.swarm().judge(load::Clock::now());
    CHECK(lab.count(Count::presence_ghosts) == 0);
}

}  // namespace pulsegate
