// Whatever ends by itself, and outlives the process: over stops, kills and the time that passes
// meanwhile it does not end early, nor twice, and it does end. The table of what is meant is in
// server/store/README.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/shard/restoration.h"
#include "tests/support/restarted_world.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

using Steps = std::vector<std::function<void(World&)>>;

/// Plays the steps with the process ending behind each two of them (or one of them twice).
template <class Check>
void play(const BrokerSettings& settings, const Steps& steps, Check check) {
    for (std::size_t first = 0; first < steps.size(); ++first)
        for (std::size_t second = first; second < steps.size(); ++second)
            for (const End one : ends_with_commits)
                for (const End other : ends_with_commits) {
                    CAPTURE(first);
                    CAPTURE(second);
                    CAPTURE(static_cast<int>(one));
                    CAPTURE(static_cast<int>(other));
                    World world(settings);
                    for (std::size_t step = 0; step < steps.size(); ++step) {
                        steps[step](world);
                        if (step == first) restart(world.brokers, one);
                        if (step == second) restart(world.brokers, other);
                    }
                    check(world);
                }
}

BrokerSettings inboxes_of(unsigned seconds) {
    BrokerSettings settings;
    settings.inbox_expiry = Millis{seconds} * 1000;
    return settings;
}

void send_to_bob(World& world, const std::string& text) {
    PlainClient ann(world.brokers, "ann");
    ann.connect(true);
    ann.send("32 r s'inbox/bob' k1 '" + text + "'");
    world.brokers.settle();
    REQUIRE(ann.take().ends_with(hex(wire("40 02 k1"))));
    ann.send("e0 00");
}

PlainClient device(World& world, const std::string& name) {
    return {world.brokers, name, "bob", Version::v5_0};
}

std::string waits_for_bob(World& world) {
    PlainClient phone = device(world, "new phone");
    phone.connect(true, 0);
    world.brokers.settle();
    return texts(phone);
}

/// A ledger that notes the most operations of a unit.
class MeasuringLedger final : public SqliteLedger {
public:
    explicit MeasuringLedger(MemoryRows& rows) : SqliteLedger({.rows = &rows}) {}

    void submit_lazily(Unit unit) override {
        most = std::max(most, unit.operations.size());
        SqliteLedger::submit_lazily(std::move(unit));
    }

    std::size_t most = 0;
};

}  // namespace

// -- inboxes --

TEST_CASE("the lifetime of an inbox begins with its last message, also over restarts") {
    const Steps steps{
        [](World& world) { send_to_bob(world, "one"); },
        [](World& world) { world.pass(700); },
        [](World& world) { send_to_bob(world, "two"); },
        [](World& world) { world.pass(900); },
    };
    play(inboxes_of(1000), steps, [](World& world) { CHECK(waits_for_bob(world) == "one two "); });
}

TEST_CASE("an inbox ends in time, also over restarts") {
    const Steps steps{
        [](World& world) { send_to_bob(world, "one"); }, [](World& world) { world.pass(500); },
        [](World& world) { world.pass(700); },  // a start counts on from a minute ahead
    };
    play(inboxes_of(1000), steps, [](World& world) {
        world.pass(1);
        CHECK(waits_for_bob(world).empty());
    });
}

TEST_CASE("unacknowledged messages from the inbox last as long as the session") {
    for (const End end : ends_with_commits) {
        CAPTURE(static_cast<int>(end));
        World world(inboxes_of(100));
        send_to_bob(world, "one");
        PlainClient phone = device(world, "phone");
        phone.connect(false, 10'000);
        world.brokers.settle();
        CHECK(texts(phone) == "one ");
        phone.lose_connection();
        world.pass(1500);
        restart(world.brokers, end);
        world.pass(1500);
        phone.connect(false, 10'000);
        world.brokers.settle();
        CHECK(texts(phone) == "one ");
        // When its session ends, the next device has as long as for a new message.
        phone.lose_connection();
        world.brokers.settle();
        restart(world.brokers, end);
        world.pass(10'010);
        world.pass(90);
        restart(world.brokers, end);
        CHECK(waits_for_bob(world) == "one ");
    }
}

TEST_CASE(
    "messages that a device got from the inbox wait for the next device, even after a long "
    "connection") {
    for (const End end : ends_with_commits) {
        CAPTURE(static_cast<int>(end));
        World world(inboxes_of(100));
        send_to_bob(world, "one");
        PlainClient phone = device(world, "phone");
        phone.connect(true, 0);
        for (int i = 0; i < 20; ++i) world.pass(30);
        restart(world.brokers, end);
        world.pass(20);
        CHECK(waits_for_bob(world) == "one ");
    }
}

// -- sessions --

namespace {

/// With its first packet, which is the CONNACK: 1 if the session was there.
bool is_resumed(PlainClient& client) {
    const std::string packets = client.take();
    return packets.starts_with("20") && packets.substr(6, 2) == "01";
}

}  // namespace

TEST_CASE("a session that is resumed shortly before its end is so after a crash, too") {
    World world;
    PlainClient phone = device(world, "phone");
    phone.connect(false, 100);
    world.brokers.settle();
    phone.lose_connection();
    world.pass(95);
    phone.connect(false, 100);
    world.brokers.deliver();
    CHECK(phone.take().empty());  // the disk still says that it ends in five seconds
    restart(world.brokers, End::kill_within_a_second);
    world.pass(50);
    phone.connect(false, 100);
    world.brokers.settle();
    CHECK(is_resumed(phone));
}

TEST_CASE("a client that takes over a login that waits for the disk waits for it, too") {
    World world;
    PlainClient phone = device(world, "phone");
    phone.connect(false, 100);
    world.brokers.settle();
    phone.lose_connection();
    world.pass(95);
    phone.connect(false, 100);
    phone.connect(false, 100);
    CHECK(phone.take().empty());
    world.brokers.settle();
    CHECK(is_resumed(phone));
}

TEST_CASE("a session that lasts for long yet is resumed without a wait for the disk") {
    World world;
    PlainClient phone = device(world, "phone");
    phone.connect(false, 100'000);
    world.brokers.settle();
    phone.lose_connection();
    world.pass(95);
    phone.connect(false, 100'000);
    CHECK(is_resumed(phone));
}

namespace {

/// A client that comes and goes, and when its session must be there.
class Returning {
public:
    explicit Returning(World& world) : world_(world), phone_(device(world, "phone")) {}

    void connect() {
        const bool is_early = world_.brokers->now < ends_.first;
        const bool is_late = world_.brokers->now > ends_.second + 2000;
        phone_.connect(false, expiry);
        world_.brokers.deliver();
        world_.brokers.commit_urgent();
        world_.brokers.deliver();
        const bool resumed = is_resumed(phone_);
        if (is_early) CHECK(resumed);
        if (is_late) CHECK_FALSE(resumed);
        is_here_ = true;
    }
    void lose() {
        phone_.lose_connection();
        is_here_ = false;
        const Millis end = world_.brokers->now + Millis{expiry} * 1000;
        ends_ = {end, end};
        went_unsaid_ = true;
    }
    void settle() {
        world_.brokers.settle();
        went_unsaid_ = false;
    }
    void restart_by(End end) {
        restart(world_.brokers, end);
        const bool is_stored = end == End::stop || end == End::kill;
        const Millis anew = world_.brokers->now + Millis{expiry} * 1000;
        if (is_here_) ends_ = {anew, anew};
        if (went_unsaid_ && !is_stored) ends_.second = anew;  // it seems to have been here
        is_here_ = went_unsaid_ = false;
    }
    bool is_here() const { return is_here_; }

    static constexpr unsigned expiry = 100;

private:
    World& world_;
    PlainClient phone_;
    bool is_here_ = false;
    bool went_unsaid_ = false;              ///< it went, which is not on the disk yet
    std::pair<Millis, Millis> ends_{0, 0};  ///< not before, and not after
};

}  // namespace

TEST_CASE("sessions end in time, by any sequence of stops, kills and connections") {
    for (unsigned seed = 1; seed <= (sanitized ? 20 : 60); ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
        World world;
        Returning phone(world);
        for (int step = 0; step < 30; ++step) switch (below(5)) {
                case 0:
                case 1: phone.is_here() ? phone.lose() : phone.connect(); break;
                case 2: phone.settle(); break;
                case 3:
                    phone.settle();
                    world.pass(below(2) ? below(10) : below(120));
                    break;
                default: phone.restart_by(static_cast<End>(below(3))); break;
            }
    }
}

TEST_CASE("a session that was ended while its client was connected does not come back") {
    World world;
    PlainClient phone = device(world, "phone");
    phone.connect(false, 1000);
    world.brokers.settle();
    Eviction eviction{
        .user = "bob", .client = "phone", .ends_sessions = true, .arrived_by = wall_now() + 1000};
    CHECK(world.brokers->broker(0).admin().evict(eviction, world.brokers->now).ended == 1);
    while (world.brokers->has_messages())  // its connection has not ended yet
        static_cast<void>(world.brokers->deliver(world.brokers->pairs_with_messages().front()));
    world.brokers.commit_urgent();
    world.brokers.crash();
    phone.connect(false, 1000);
    world.brokers.settle();
    CHECK_FALSE(is_resumed(phone));
}

TEST_CASE("a stop ends no session for persistent-session-quota that a crash would keep") {
    BrokerSettings settings;
    settings.persistent_session_quota = 2;
    for (const End end : ends_with_commits) {
        CAPTURE(static_cast<int>(end));
        World world(settings);
        std::list<PlainClient> clients;
        for (const char* name : {"a", "b", "c", "d"})
            clients.emplace_back(world.brokers, name, name, Version::v5_0).connect(false, 1000);
        restart(world.brokers, end);
        for (PlainClient& each : clients) {
            each.connect(false, 1000);
            world.brokers.settle();
            CHECK(is_resumed(each));
        }
    }
}

TEST_CASE("a member of a room gets what is published after a stop has ended its connection") {
    World world;
    world.brokers->broker(0).admin().rooms().add("room/r", "bob");
    PlainClient phone = device(world, "phone");
    PlainClient ann(world.brokers, "ann");
    phone.connect(false, 1000);
    ann.connect(true);
    world.brokers.settle();
    phone.link().end({Cause::shutdown, Reason::server_shutting_down, "the server shuts down"});
    world.brokers->end_turn();
    ann.send("32 r s'room/r' k1 'hello'");
    world.brokers.settle();
    REQUIRE(ann.take().ends_with(hex(wire("40 02 k1"))));
    for (const End end : ends_with_commits) {
        CAPTURE(static_cast<int>(end));
        restart(world.brokers, end);
        phone.connect(false, 1000);
        world.brokers.settle();
        CHECK(texts(phone) == "hello ");
    }
}

TEST_CASE(
    "messages that wait in a room for a member without a device end in time, or late if the clock "
    "is put back") {
    for (const int set : {0, 5000, -5000}) {
        CAPTURE(set);
        World world(inboxes_of(1000));
        world.brokers->broker(0).admin().rooms().add("room/r", "bob");
        PlainClient ann(world.brokers, "ann");
        ann.connect(true);
        ann.send("32 r s'room/r' k1 'hello'");
        world.brokers.settle();
        REQUIRE(ann.take().ends_with(hex(wire("40 02 k1"))));
        ann.send("e0 00");
        set < 0 ? world.put_back(5000) : world.set_ahead(static_cast<unsigned>(set));
        world.pass(900);
        world.pass(1);
        CHECK(world.brokers->broker(0).admin().room_logs().size() == 1);
        world.pass(200);
        world.pass(1);
        CHECK(world.brokers->broker(0).admin().room_logs().size() == (set < 0 ? 1 : 0));
        CHECK(waits_for_bob(world) == (set < 0 ? "hello " : ""));
    }
}

// -- users --

TEST_CASE("a user is remembered for forget-after, though the clock is set ahead") {
    BrokerSettings settings;
    settings.forget_after = 1'000'000;
    World world(settings);
    PlainClient ann(world.brokers, "ann");
    ann.connect(true);
    ann.send("e0 00");
    const auto is_known = [&] {
        return world.brokers->broker(0).admin().presence().find("ann") != nullptr;
    };
    world.set_ahead(5000);
    for (int i = 0; i < 100; ++i) world.pass(1);
    CHECK(is_known());
    world.pass(1000);
    for (int i = 0; i < 100; ++i) world.pass(1);
    CHECK_FALSE(is_known());
}

// -- delayed messages --

TEST_CASE(
    "a delayed message of QoS 0 does not come twice, if the process ends as it is published") {
    World world;
    PlainClient ann(world.brokers, "ann");
    PlainClient bob(world.brokers, "bob");
    bob.connect(false);
    bob.send("82 r k1 s'x' 00");
    ann.connect(true);
    ann.send("30 r s'$delayed/5/x' 'hello'");
    world.brokers.settle();
    bob.take();
    world.wait(10);
    static_cast<void>(world.brokers->broker(0).tick(world.brokers->now));
    world.brokers.deliver();
    world.brokers.commit();   // it is taken
    world.brokers.deliver();  // and to be published
    const std::string before = texts(bob);
    world.brokers.crash();
    bob.connect(false);
    world.pass(1);
    world.pass(1);
    CHECK(before + texts(bob) == "hello ");
}

// -- retained messages --

TEST_CASE("a retained message that has expired does not come back when the clock is put back") {
    World world;
    PlainClient ann(world.brokers, "ann", "ann", Version::v5_0);
    PlainClient bob(world.brokers, "bob");
    ann.connect(true, 0);
    ann.send("33 r s'x' k1 [ 02 w60 ] 'hello'");
    world.brokers.settle();
    for (int i = 0; i < 70; ++i) world.pass(1);
    world.put_back(100);
    world.brokers.crash();
    bob.connect(true);
    bob.send("82 r k1 s'x' 00");
    world.brokers.settle();
    CHECK(texts(bob).empty());
}

TEST_CASE("a start stores what has expired in many units, so that others need not wait for all") {
    MemoryRows rows;
    MeasuringLedger ledger(rows);
    StoredState found;
    Restored restored;
    restored.start = found.read(ledger);
    constexpr std::size_t count = 1050;
    std::vector<Operation> puts;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string topic = "t" + std::to_string(i);
        puts.emplace_back(PutRetained{.stamp = 1, .message = message(topic, "!")});
        restored.expired.emplace_back(DropRetained{2, topic});
    }
    commit(ledger, std::move(puts));
    store_restored(ledger, restored);
    commit(ledger, {});
    CHECK(ledger.most <= 100);
    SqliteLedger next({.rows = &rows});
    StoredState left;
    left.read(next);
    CHECK(left.text() == found.text());
}
