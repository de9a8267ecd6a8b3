// Whatever ends by itself, and outlives the process: over stops, kills and the time that passes
// meanwhile it does not end early, nor twice, and it does end. The table of what is meant is in
// server/store/README.md.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/moved_wall_clock.h"
#include "tests/support/durable_cluster.h"

using namespace pulsegate;

namespace {

/// A gateway that is stopped and killed, and the time that passes for it and for its store.
class World {
public:
    explicit World(const BrokerSettings& settings = {}) : brokers(1, settings) {
        // Stamps never go back, and those of the world before are of the days that passed there.
        const auto last = static_cast<WallMillis>(next_stamp() / stamp_at(1));
        wall_.advance(std::max<WallMillis>(last - wall_now(), 0));
    }

    void pass(unsigned seconds) {
        wait(seconds);
        do {
            brokers.settle();
        } while (brokers->broker(0).tick(brokers->now));
        brokers.settle();
    }
    /// While it is down.
    void sleep(unsigned seconds) { wall_.advance(WallMillis{seconds} * 1000); }
    void wait(unsigned seconds) {
        wall_.advance(seconds * 1000);
        brokers->now += seconds * 1000;
    }

    /// Somebody sets the clock.
    void put_back(unsigned seconds) { wall_.advance(-WallMillis{seconds} * 1000); }

    DurableCluster brokers;

private:
    MovedWallClock wall_;
};

/// How a process ends, and how much of what it has done is on the disk then.
enum class End { stop, kill, kill_within_a_second, kill_before_the_commit };

void restart(DurableCluster& brokers, End end) {
    if (end == End::stop) {
        brokers.settle();
        brokers.stop();
        return brokers.start();
    }
    if (end != End::kill_before_the_commit) {
        brokers.deliver();
        end == End::kill ? brokers.commit() : brokers.commit_urgent();
    }
    brokers.crash();
}

constexpr End ends_with_commits[] = {End::stop, End::kill, End::kill_within_a_second};

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

std::string texts(PlainClient& client) {
    std::string all;
    for (const auto& each : client.take_messages()) all += each.text + " ";
    return all;
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

}  // namespace

// -- inboxes --

TEST_CASE("an inbox lasts from its last message on, whatever restarts come between") {
    const Steps steps{
        [](World& world) { send_to_bob(world, "one"); },
        [](World& world) { world.pass(700); },
        [](World& world) { send_to_bob(world, "two"); },
        [](World& world) { world.pass(900); },
    };
    play(inboxes_of(1000), steps, [](World& world) { CHECK(waits_for_bob(world) == "one two "); });
}

TEST_CASE("an inbox ends, whatever restarts come between") {
    const Steps steps{
        [](World& world) { send_to_bob(world, "one"); }, [](World& world) { world.pass(500); },
        [](World& world) { world.pass(700); },  // a start counts on from a minute ahead
    };
    play(inboxes_of(1000), steps, [](World& world) {
        world.pass(1);
        CHECK(waits_for_bob(world).empty());
    });
}

TEST_CASE("what a session has got from the inbox, and not acknowledged, lasts as long as it") {
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

TEST_CASE("what a device has got from the inbox waits for the next one, however long it was here") {
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

TEST_CASE("who takes over a login that waits for the disk waits for it, too") {
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
    for (unsigned seed = 1; seed <= 60; ++seed) {
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
    CHECK(world.brokers->broker(0).evict(eviction, world.brokers->now).ended == 1);
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
    world.brokers->broker(0).rooms().add("room/r", "bob");
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

// -- wills --

namespace {

/// A client with a will in each of its connections, and what becomes of each of them.
class Willing {
public:
    Willing(World& world, std::string name, unsigned delay)
        : world_(world),
          client_(world.brokers, name, name, Version::v5_0),
          name_(name),
          delay_(delay) {}

    void connect() {
        const bool is_certain = latest_ != 0 && fates_[latest_].least == 1;
        if (is_certain && delay_ > 0) fates_[latest_] = fate_of_one_who_is_back();
        note(latest_);
        due_.reset();
        is_here_ = true;
        fates_[++latest_] = {1, 1};
        note(latest_);
        client_.connect(
            fmt::format("10 r s'MQTT' 05 34 k60 [ 11 w100000 ] s'{0}' [ 18 w{1} ]"
                        " s'wills/{0}' s'{0}{2}'",
                        name_, delay_, latest_));
    }
    void lose() {
        client_.lose_connection();
        due_ = world_.brokers->now + Millis{delay_} * 1000;
        is_here_ = false;
        note(latest_);
    }
    void leave(bool with_will) {
        client_.send(with_will ? "e0 r 04" : "e0 00");
        is_here_ = false;
        if (with_will)
            due_ = world_.brokers->now + Millis{delay_} * 1000;
        else
            fates_[latest_] = {0, 0};
        note(latest_);
    }
    void settled() { unsaid_.clear(); }
    void restarted(bool is_stored) {
        if (is_here_) due_ = world_.brokers->now + Millis{delay_} * 1000;
        is_here_ = false;
        // What the disk does not know may have been as before, or not.
        if (!is_stored)
            for (const int each : unsaid_) fates_[each] = {0, 1};
        if (!is_stored && due_ && !unsaid_.empty())
            due_ = world_.brokers->now + Millis{delay_} * 1000;
        unsaid_.clear();
    }
    bool is_here() const { return is_here_; }

    void check(const std::map<std::string, int>& published) const {
        for (const auto& [number, fate] : fates_) {
            const auto text = fmt::format("{}{}", name_, number);
            CAPTURE(text);
            const auto found = published.find(text);
            const int times = found == published.end() ? 0 : found->second;
            CHECK(times >= fate.least);
            CHECK(times <= fate.most);
        }
    }

private:
    struct Fate {
        int least;
        int most;
    };
    /// It takes the will back in time; about then it may do so.
    Fate fate_of_one_who_is_back() const {
        if (!due_) return {0, 0};  // it takes over its own connection
        const Millis left = *due_ - world_.brokers->now;
        if (left > 2000) return {0, 0};
        return {left > -2000 ? 0 : 1, 1};
    }
    void note(int number) {
        if (number != 0) unsaid_.push_back(number);
    }

    World& world_;
    PlainClient client_;
    const std::string name_;
    const unsigned delay_;
    bool is_here_ = false;
    int latest_ = 0;
    std::optional<Millis> due_;  ///< of the latest will
    std::map<int, Fate> fates_;  ///< how often each comes
    std::vector<int> unsaid_;    ///< of which the disk knows nothing yet
};

}  // namespace

TEST_CASE("every will comes once, by any sequence of stops, kills and connections") {
    for (unsigned seed = 1; seed <= 80; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
        World world;
        PlainClient watcher(world.brokers, "watcher");
        watcher.connect(false);
        watcher.send("82 r k1 s'wills/#' 02");
        world.brokers.settle();
        watcher.lose_connection();
        std::list<Willing> clients;
        clients.emplace_back(world, "a", 0);
        clients.emplace_back(world, "b", 0);
        clients.emplace_back(world, "c", 20);
        clients.emplace_back(world, "d", 60);
        const auto settle = [&] {
            world.brokers.settle();
            for (Willing& each : clients) each.settled();
        };
        for (int step = 0; step < 40; ++step) {
            Willing& one = *std::next(clients.begin(), below(4));
            switch (below(8)) {
                case 0:
                case 1: one.connect(); break;
                case 2: one.is_here() ? one.lose() : one.connect(); break;
                case 3: one.is_here() ? one.leave(below(2) == 0) : one.connect(); break;
                case 4: settle(); break;
                case 5:
                case 6:
                    settle();
                    world.pass(1 + below(30));
                    settle();
                    break;
                default: {
                    const auto end = static_cast<End>(below(4));
                    restart(world.brokers, end);
                    const bool is_stored = end == End::stop || end == End::kill;
                    for (Willing& each : clients) each.restarted(is_stored);
                    break;
                }
            }
        }
        settle();
        restart(world.brokers, End::stop);
        for (Willing& each : clients) each.restarted(true);
        for (int i = 0; i < 40; ++i) world.pass(3);
        watcher.connect(false);
        world.brokers.settle();
        std::map<std::string, int> published;
        for (const auto& each : watcher.take_messages()) ++published[each.text];
        for (const Willing& each : clients) each.check(published);
    }
}

TEST_CASE("a client that is back after a stop within its will's delay takes the will back") {
    World world;
    PlainClient watcher(world.brokers, "watcher");
    watcher.connect(false);
    watcher.send("82 r k1 s'wills/#' 02");
    Willing client(world, "a", 20);
    client.connect();
    world.brokers.settle();
    watcher.lose_connection();
    world.brokers.settle();
    world.brokers.stop();
    world.sleep(1000);
    world.brokers.start();
    world.pass(10);
    client.connect();
    world.pass(100);
    watcher.connect(false);
    world.brokers.settle();
    CHECK(texts(watcher).empty());
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
