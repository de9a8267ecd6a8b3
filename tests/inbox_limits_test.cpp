// How much a sender may have in the inboxes of disconnected users, and which sender gives way.
#include <doctest/doctest.h>

#include <iterator>
#include <list>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "server/message/topics.h"
#include "server/session/users/inbox_senders.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/gateway.h"
#include "tests/support/lobby.h"
#include "tests/support/versions.h"

using namespace pulsegate;

namespace {

/// Publishers of MQTT 5.0, each its own user.
struct Scene {
    Scene(unsigned shards, const BrokerSettings& settings, bool has_store = true)
        : brokers(shards, settings, has_store) {}

    PlainClient& publisher(const std::string& name) {
        PlainClient& client = clients.emplace_back(brokers, name, name, v5);
        client.connect(true);
        brokers.settle();
        client.take();
        return client;
    }
    /// How a message at QoS 1 is answered.
    std::string answer(PlainClient& from, const std::string& user, const std::string& text = "!") {
        from.send("32 r s'inbox/" + user + "' k1 [ ] '" + text + "'");
        brokers.settle();
        return from.take();
    }
    /// What waits for a user.
    std::string inbox_of(const std::string& user) {
        PlainClient phone(brokers, "phone", user);
        phone.connect(true);
        brokers.settle();
        std::string all;
        for (const auto& each : phone.take_messages()) all += each.text + " ";
        phone.lose_connection();
        brokers.settle();
        return all;
    }
    std::uint64_t refused() { return brokers->sum(&Counters::dropped_no_inbox); }

    /// Messages of inboxes that have ended.
    std::uint64_t ended() { return brokers->sum(&Counters::dropped_session_ended); }

    DurableCluster brokers;
    std::list<PlainClient> clients;
};

const std::string taken = hex(wire("40 02 k1"));
const std::string refused = hex(wire("40 03 k1 97"));

}  // namespace

TEST_CASE("an inbox's name has 1,024 bytes at most, for clients, wills and everybody") {
    CHECK_FALSE(names_no_inbox("inbox/" + std::string(longest_name, 'x')));
    CHECK(names_no_inbox("inbox/" + std::string(longest_name + 1, 'x')));
    std::string encoded = "inbox/";
    for (std::size_t i = 0; i < longest_name; ++i) encoded += "%2F";
    CHECK_FALSE(names_no_inbox(encoded));
    CHECK(names_no_inbox(encoded + "x"));
    CHECK_FALSE(names_no_inbox("inbox/" + std::string(2000, 'x') + "/y"));
    CHECK_FALSE(names_no_inbox("room/" + std::string(2000, 'x')));

    for (const bool has_store : {false, true}) {
        Scene scene(2, {}, has_store);
        PlainClient& alice = scene.publisher("alice");
        const std::string longest(1024, 'x');
        CHECK(scene.answer(alice, longest, "hello") == taken);
        CHECK(scene.answer(alice, longest + "x") == hex(wire("40 03 k1 90")));
        CHECK(scene.inbox_of(longest) == "hello ");
        PlainClient mal(scene.brokers, "mal", "mal", v5);
        mal.connect("10 r s'MQTT' 05 06 k60 [ ] s'mal' [ ] s'inbox/" + longest + "x' s'gone'");
        CHECK(mal.link().bytes.substr(2, 2) == wire("00 90"));
    }
}

TEST_CASE("a user's messages in inboxes are bounded in bytes and in number of inboxes") {
    for (const unsigned shards : {1u, 3u})
        for (const bool has_store : {false, true}) {
            if (!has_store && shards > 1) continue;  // other shards can't be waited for
            CAPTURE(shards);
            CAPTURE(has_store);
            BrokerSettings settings;
            settings.max_inboxes_per_user = 5;
            settings.max_inbox_bytes_per_user = 4 * 3000 + 500;
            Scene scene(shards, settings, has_store);
            PlainClient& mal = scene.publisher("mal");
            const std::string text(600, 'x');  // with what an inbox takes some 3,000 bytes
            for (const char* user : {"a", "b", "c", "d"})
                CHECK(scene.answer(mal, user, text) == taken);
            CHECK(scene.answer(mal, "e", text) == refused);
            CHECK(scene.answer(mal, "a", text) == refused);
            CHECK(scene.refused() == 2);
            CHECK(scene.answer(scene.publisher("alice"), "e") == taken);
            CHECK(scene.answer(scene.publisher("bob"), "a") == taken);
            CHECK(scene.inbox_of("a") == text + " ! ");  // not acknowledged: it goes back
            CHECK(scene.answer(mal, "a", text) == refused);
        }
}

TEST_CASE("after a restart, the gateway knows how many bytes in inboxes each sender has") {
    BrokerSettings settings;
    settings.max_inboxes_per_user = 3;
    Scene scene(2, settings);
    for (const char* user : {"a", "b", "c"})
        CHECK(scene.answer(scene.publisher("mal"), user) == taken);
    scene.clients.clear();
    scene.brokers.crash();
    CHECK(scene.answer(scene.publisher("mal"), "d") == refused);
    CHECK(scene.answer(scene.publisher("mal"), "a") == taken);
    PlainClient phone(scene.brokers, "phone", "a");
    phone.connect(true);
    scene.brokers.settle();
    phone.send("40 02 k1");
    phone.send("40 02 k2");
    scene.brokers.settle();
    CHECK(scene.answer(scene.publisher("mal"), "d") == taken);
}

TEST_CASE("when there are too many inboxes, senders with many give way to senders with few") {
    for (const unsigned shards : {1u, 2u})
        for (const bool has_store : {false, true}) {
            if (!has_store && shards > 1) continue;  // other shards can't be waited for
            CAPTURE(shards);
            CAPTURE(has_store);
            BrokerSettings settings;
            settings.max_inboxes = 60;
            settings.max_inboxes_per_user = 20;
            Scene scene(shards, settings, has_store);
            CHECK(scene.answer(scene.publisher("bob"), "dave", "important") == taken);
            for (const std::string mal : {"mal1", "mal2", "mal3"})
                for (int i = 0; i < 20; ++i)
                    scene.answer(scene.publisher(mal), mal + "-" + std::to_string(i));
            // An honest conversation in an inbox that mal has filled first.
            CHECK(scene.answer(scene.publisher("bob"), "mal1-0", "hello") == taken);
            for (int i = 0; i < 8; ++i) {
                const auto n = std::to_string(i);
                CHECK(scene.answer(scene.publisher("new" + n), "carol" + n, "for you") == taken);
            }
            CHECK(scene.answer(scene.publisher("mal1"), "mal1-x") == refused);
            for (int i = 0; i < 8; ++i)
                CHECK(scene.inbox_of("carol" + std::to_string(i)) == "for you ");
            CHECK(scene.inbox_of("dave") == "important ");
            CHECK(scene.inbox_of("mal1-0").find("hello") != std::string::npos);
        }
}

TEST_CASE("an inbox does not give way to other sessions while a device has messages from it") {
    Gateway gateway([](Config& config) { config.persistent_session_quota = 1; });
    const auto bob = at_home(0, "bob");
    const auto eve = at_home(0, "eve");
    const auto message = "32 r s'inbox/" + bob + "' k1 'a'";
    Conversation sender(gateway);
    sender.login(at_home(0, "sender")).send(message).expect("40 02 k1");
    const auto log_in = [](Conversation& device, const char* flags, const std::string& user) {
        const auto connect = std::string("10 r s'MQTT' 04 ") + flags + " k10 s'phone' s'";
        device.send(connect + user + "'").expect("20 r 00 00");
    };
    Conversation phone(gateway);
    log_in(phone, "82", bob);
    phone.expect(message);
    Conversation other(gateway);
    log_in(other, "80", eve);
    other.send("e0 00").expect_close();
    phone.expect_nothing();
    Conversation again(gateway);
    log_in(again, "80", eve);  // its session has ended instead
    phone.close();
    Conversation next(gateway);
    log_in(next, "82", bob);
    next.expect(message);
}

TEST_CASE(
    "while memory is scarce, there are no more inboxes, and senders with many give way to senders "
    "with few") {
    for (const bool has_store : {false, true}) {
        CAPTURE(has_store);
        Scene scene(1, {}, has_store);
        for (int i = 0; i < 20; ++i)
            scene.answer(scene.publisher("mal"), "mal-" + std::to_string(i));
        CHECK(scene.answer(scene.publisher("bob"), "dave", "important") == taken);
        scene.brokers->memory = MemoryState::scarce;
        CHECK(scene.answer(scene.publisher("mal"), "mal-20") == refused);
        CHECK(scene.answer(scene.publisher("mal"), "mal-19", "again") == taken);
        CHECK(scene.answer(scene.publisher("alice"), "carol", "the first one") == taken);
        CHECK(scene.ended() == 0);
        CHECK(scene.answer(scene.publisher("alice"), "eve", "for you") == taken);
        CHECK(scene.ended() == 1);
        scene.brokers->memory = MemoryState::used_up;
        CHECK(scene.answer(scene.publisher("ann"), "erin", "for you, too") == taken);
        CHECK(scene.ended() == 2);
        for (const char* name : {"carol", "eve", "erin", "dave"})
            CHECK_FALSE(scene.inbox_of(name).empty());
        scene.brokers->memory = MemoryState::plenty;
        CHECK(scene.answer(scene.publisher("mal"), "mal-21") == taken);
    }
}

TEST_CASE(
    "no message is retained that takes much more than the one before while memory is scarce") {
    Scene scene(1, {});
    const std::string large(1024, 'x');
    PlainClient& alice = scene.publisher("alice");
    alice.send("33 r s'a' k1 [ ] '" + large + "'");
    scene.brokers->memory = MemoryState::scarce;
    alice.send("33 r s'b' k2 [ ] 'x'");
    scene.brokers.settle();
    CHECK(alice.take() == hex(wire("40 03 k1 10 40 03 k2 10")));
    alice.send("33 r s'b' k1 [ ] '" + large + "'");  // larger than the one that is there
    scene.brokers.settle();
    CHECK(alice.take() == refused);
    alice.send("33 r s'a' k1 [ ] '" + large + "'");
    scene.brokers.settle();
    CHECK(alice.take() == hex(wire("40 03 k1 10")));
    scene.brokers->memory = MemoryState::used_up;
    alice.send("33 r s'c' k1 [ ] 'x'");
    scene.brokers.settle();
    CHECK(alice.take() == refused);
}

TEST_CASE("a message that is not retained because of a limit is refused") {
    BrokerSettings settings;
    settings.max_retained_messages = 1;
    Scene scene(1, settings);
    PlainClient& alice = scene.publisher("alice");
    alice.send("33 r s'a' k1 [ ] 'x'");
    scene.brokers.settle();
    CHECK(alice.take() == hex(wire("40 03 k1 10")));  // it is retained, and nobody is there
    alice.send("33 r s'b' k1 [ ] 'x'");
    scene.brokers.settle();
    CHECK(alice.take() == refused);
    alice.send("35 r s'b' k2 [ ] 'x'");
    scene.brokers.settle();
    CHECK(alice.take() == hex(wire("50 03 k2 97")));
}

TEST_CASE("a message of QoS 2 that was refused is refused again, whenever its client comes back") {
    for (const bool is_decided : {false, true}) {
        CAPTURE(is_decided);
        BrokerSettings settings;
        settings.max_queued_messages = 1;
        Scene scene(2, settings);
        const std::string carol = user_at(1, 2, "carol");
        const std::string name = user_at(0, 2, "desk");
        PlainClient& first = scene.publisher("first");
        CHECK(scene.answer(first, carol, std::string(300, 'x')) == taken);
        PlainClient desk(scene.brokers, name, name, v5);
        desk.connect(false);
        scene.brokers.settle();
        const auto publish = " r s'inbox/" + carol + "' k7 [ ] '" + std::string(900, 'y') + "'";
        desk.send("34" + publish);
        desk.lose_connection();  // the other shard has not decided yet
        if (is_decided) scene.brokers.settle();
        desk.connect(false);
        desk.send("3c" + publish);
        scene.brokers.settle();
        CHECK(desk.take().ends_with(hex(wire("50 03 k7 97"))));
        desk.send("34 r s'inbox/" + name + "' k7 [ ] 'to myself'");
        scene.brokers.settle();
        CHECK(desk.take().find(hex(wire("50 02 k7"))) != std::string::npos);
    }
}

TEST_CASE("a full queue is told, and the identifier of QoS 2 is free again, also after a crash") {
    BrokerSettings settings;
    settings.max_queued_messages = 1;
    Scene scene(2, settings);
    PlainClient& first = scene.publisher("first");
    CHECK(scene.answer(first, "carol", std::string(300, 'x')) == taken);
    PlainClient second(scene.brokers, "second", "second", v5);
    second.connect(false);
    scene.brokers.settle();
    second.take();
    const auto publish = "34 r s'inbox/carol' k7 [ ] '" + std::string(900, 'y') + "'";
    second.send(publish);
    scene.brokers.settle();
    CHECK(second.take() == hex(wire("50 03 k7 97")));
    scene.brokers.crash();
    PlainClient again(scene.brokers, "second", "second", v5);
    again.connect(false);
    scene.brokers.settle();
    again.take();
    again.send("34 r s'inbox/dave' k7 [ ] 'fresh'");
    scene.brokers.settle();
    CHECK(again.take() == hex(wire("50 02 k7")));
    CHECK(scene.inbox_of("dave") == "fresh ");
}

TEST_CASE("one turn searches only some of very many inboxes for expired messages") {
    BrokerSettings settings;
    settings.max_inboxes = 5000;
    settings.max_inboxes_per_user = 5000;
    Scene scene(1, settings, false);
    PlainClient& alice = scene.publisher("alice");
    for (int i = 0; i < 5000; ++i)
        alice.send("32 r s'inbox/u" + std::to_string(i) + "' k1 [ 02 w1 ] '!'");
    scene.brokers.settle();
    REQUIRE(scene.brokers->broker(0).waiting() == 5000);
    scene.brokers->now += 2000;
    PlainClient& bob = scene.publisher("bob");
    CHECK(scene.answer(bob, "carol") == taken);
    CHECK(scene.brokers->broker(0).waiting() == 5000 - 4096 + 1);
}

TEST_CASE("the sender with most in inboxes is found over several turns") {
    InboxAccounts accounts;
    InboxSenders senders(accounts);
    Outbox::Totals totals;
    const Outbox inbox(totals);
    for (InboxSenders::Sender sender = 1; sender <= 10'000; ++sender)
        senders.add(inbox, sender, sender == 7000 ? 2 : 1);
    InboxSenders::Search search;
    int turns = 1;
    while (!senders.find_largest(search, true)) ++turns;
    CHECK(turns == 3);
    CHECK(search.largest.sender == 7000);
    CHECK(search.largest.holders == 10'000);
    CHECK(search.largest.sum == 10'000 * (InboxSenders::bytes_of_inbox + 1) + 1);
}

TEST_CASE("inboxes are counted for each of their senders as often as they are there") {
    std::mt19937 random(4711);
    Outbox::Totals totals;
    InboxAccounts accounts;
    InboxSenders senders(accounts);
    std::list<Outbox> inboxes;
    for (int i = 0; i < 6; ++i) inboxes.emplace_back(totals);
    std::map<std::pair<const Outbox*, InboxSenders::Sender>, std::size_t> model;
    const auto inboxes_of = [&](InboxSenders::Sender sender) {
        std::size_t count = 0;
        for (const auto& [key, messages] : model) count += key.second == sender && messages > 0;
        return count;
    };
    for (int step = 0; step < 20'000; ++step) {
        auto inbox = inboxes.begin();
        std::advance(inbox, random() % inboxes.size());
        const auto sender = static_cast<InboxSenders::Sender>(random() % 5);
        std::size_t& messages = model[{&*inbox, sender}];
        if (random() % 2 == 0 || messages == 0) {
            senders.add(*inbox, sender, 100);
            ++messages;
        } else {
            senders.remove(*inbox, sender, 100);
            --messages;
        }
        CHECK(senders.takes_part(*inbox, sender) == (messages > 0));
        const auto newcomer = static_cast<InboxSenders::Sender>(random() % 6);
        const Outbox* surplus = senders.surplus(newcomer, [](const Outbox&) { return true; });
        if (!surplus) continue;
        const std::size_t of_newcomer = newcomer == 0 ? 0 : inboxes_of(newcomer);
        for (InboxSenders::Sender each = 0; each < 6; ++each) {
            if (model[{surplus, each}] == 0) continue;
            CHECK(each != InboxAccounts::gateway);
            CHECK(inboxes_of(each) > of_newcomer + 1);
        }
    }
    for (InboxSenders::Sender sender = 1; sender < 5; ++sender) {
        const InboxAccounts::Share most{.inboxes = inboxes_of(sender), .bytes = SIZE_MAX};
        CHECK(accounts.claim(sender, {.inboxes = 1, .bytes = 0}, most) ==
              Limit::max_inboxes_per_user);
    }
}
