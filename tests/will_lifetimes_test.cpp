// Wills over stops, kills and the time that passes meanwhile: each comes once.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/restarted_world.h"
#include "tests/support/sanitized.h"

using namespace pulsegate;

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
        const bool waits = delay_ > 0 || awaited_until_;
        if (is_certain && waits) fates_[latest_] = fate_of_one_who_is_back();
        note(latest_);
        due_.reset();
        awaited_until_.reset();
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
    void restarted(End end) {
        const Millis now = world_.brokers->now;
        const bool is_stored = end == End::stop || end == End::kill;
        const bool was_here = is_here_ || is_awaited();
        const bool is_near = awaited_until_ && std::abs(*awaited_until_ - now) <= 2000;
        is_here_ = false;
        if (was_here || is_near) begin_anew(end);
        // What the disk does not know may have been as before, or not.
        if (!is_stored)
            for (const int each : unsaid_) fates_[each] = {0, 1};
        if (is_near) fates_[latest_].least = 0;
        if (!is_stored && due_ && !unsaid_.empty()) begin_anew(end);
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
    static constexpr Millis limit = 90'000;  ///< of a keepalive of 60 s

    struct Fate {
        int least;
        int most;
    };
    /// After a kill it is as if the client were here still, until its limit has passed.
    void begin_anew(End end) {
        const Millis now = world_.brokers->now;
        awaited_until_.reset();
        if (end != End::stop) awaited_until_ = now + limit;
        due_ = awaited_until_.value_or(now) + Millis{delay_} * 1000;
    }
    bool is_awaited() const { return awaited_until_ && world_.brokers->now < *awaited_until_; }
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
    std::optional<Millis> awaited_until_;
    std::map<int, Fate> fates_;  ///< how often each comes
    std::vector<int> unsaid_;    ///< of which the disk knows nothing yet
};

}  // namespace

TEST_CASE("every will comes once, by any sequence of stops, kills and connections") {
    for (unsigned seed = 1; seed <= (sanitized ? 25 : 80); ++seed) {
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
                    world.pass(1 + below(below(4) == 0 ? 120 : 30));
                    settle();
                    break;
                default: {
                    const auto end = static_cast<End>(below(4));
                    restart(world.brokers, end);
                    for (Willing& each : clients) each.restarted(end);
                    break;
                }
            }
        }
        settle();
        restart(world.brokers, End::stop);
        for (Willing& each : clients) each.restarted(End::stop);
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

TEST_CASE("a will that was due while the gateway was down comes with its start") {
    for (const unsigned seconds_down : {30u, 5000u}) {
        CAPTURE(seconds_down);
        World world;
        PlainClient watcher(world.brokers, "watcher");
        watcher.connect(false);
        watcher.send("82 r k1 s'wills/#' 02");
        Willing client(world, "a", 20);
        client.connect();
        world.brokers.settle();
        watcher.lose_connection();
        client.lose();
        world.brokers.settle();
        world.brokers.stop();
        world.sleep(seconds_down);
        world.brokers.start();
        world.pass(2);
        watcher.connect(false);
        world.brokers.settle();
        CHECK(texts(watcher) == "a1 ");
    }
}

namespace {

/// A client with a will that is connected at the kill, and a watcher of the will afterwards.
struct Killed {
    explicit Killed(unsigned delay) : watcher(world.brokers, "watcher"), client(world, "a", delay) {
        watcher.connect(false);
        watcher.send("82 r k1 s'wills/#' 00");
        client.connect();
        world.brokers.settle();
        restart(world.brokers, End::kill);
        watcher.connect(false);
        world.brokers.settle();
    }

    World world;
    PlainClient watcher;
    Willing client;
};

}  // namespace

TEST_CASE("a client that is back after a kill within its limit takes the will back") {
    for (const unsigned delay : {0u, 20u}) {
        CAPTURE(delay);
        Killed killed(delay);
        killed.world.pass(delay + 88);
        killed.client.connect();
        killed.world.pass(200);
        CHECK(texts(killed.watcher).empty());
    }
}

TEST_CASE("the will of a client that is not back after a kill comes when its limit has passed") {
    for (const unsigned delay : {0u, 20u}) {
        CAPTURE(delay);
        Killed killed(delay);
        killed.world.pass(delay + 89);
        CHECK(texts(killed.watcher).empty());
        killed.world.pass(2);
        CHECK(texts(killed.watcher) == "a1 ");
        killed.world.pass(200);
        CHECK(texts(killed.watcher).empty());
    }
}

TEST_CASE("a login that is lost before its CONNACK leaves the will of a client that is awaited") {
    World world;
    PlainClient watcher(world.brokers, "watcher");
    watcher.connect(false);
    watcher.send("82 r k1 s'wills/#' 00");
    PlainClient client(world.brokers, "a", "a", Version::v5_0);
    client.connect(false, 100, "wills/a");
    world.brokers.settle();
    restart(world.brokers, End::kill);
    watcher.connect(false);
    world.brokers.settle();
    for ([[maybe_unused]] const int login : {1, 2}) {
        world.pass(30);
        client.connect(false, 100, "wills/a");
        CHECK(client.take().empty());  // the CONNACK waits, because its session ends soon
        client.lose_connection();
        world.brokers.settle();
        CHECK(texts(watcher).empty());
    }
    SUBCASE("it comes back") {
        world.pass(60);
        client.connect(false, 100, "wills/a");
        CHECK(client.take().empty());  // and it tries again over another connection:
        client.connect(false, 100, "wills/a");
        world.pass(200);
        CHECK(texts(watcher).empty());
    }
    SUBCASE("it logs in twice without a session") {
        client.connect(false, 0, "wills/a");
        CHECK(client.take().empty());
        client.connect(false, 0, "wills/a");
        world.brokers.settle();
        CHECK(texts(watcher) == "gone ");
    }
    SUBCASE("it stays away") {
        world.pass(92);
        CHECK(texts(watcher) == "gone ");
        world.pass(200);
        CHECK(texts(watcher).empty());
    }
}

TEST_CASE("a second kill within the limit begins it again, for the will as well") {
    Killed killed(0);
    killed.world.pass(60);
    restart(killed.world.brokers, End::kill);
    killed.watcher.connect(false);
    killed.world.pass(80);
    CHECK(texts(killed.watcher).empty());
    killed.world.pass(12);
    CHECK(texts(killed.watcher) == "a1 ");
    restart(killed.world.brokers, End::kill);
    killed.watcher.connect(false);
    killed.world.pass(200);
    CHECK(texts(killed.watcher).empty());
}

TEST_CASE("a stop after a kill does not keep the will back") {
    Killed killed(0);
    killed.world.pass(60);
    restart(killed.world.brokers, End::stop);
    killed.watcher.connect(false);
    killed.world.pass(2);
    CHECK(texts(killed.watcher) == "a1 ");
}

TEST_CASE("a client that begins anew after a kill ends its session, and its will comes") {
    Killed killed(0);
    PlainClient anew(killed.world.brokers, "a", "a", Version::v5_0);
    anew.connect(true, 0);
    killed.world.brokers.settle();
    CHECK(texts(killed.watcher) == "a1 ");
}

TEST_CASE("the session of a client that is not back after a kill ends in time, with its will") {
    World world;
    PlainClient watcher(world.brokers, "watcher");
    watcher.connect(false);
    watcher.send("82 r k1 s'wills/#' 00");
    PlainClient client(world.brokers, "a", "a", Version::v5_0);
    client.connect(false, 100, "wills/a");
    world.brokers.settle();
    restart(world.brokers, End::kill);
    watcher.connect(false);
    world.pass(60);
    restart(world.brokers, End::kill);
    watcher.connect(false);
    world.pass(92);
    CHECK(texts(watcher) == "gone ");
    restart(world.brokers, End::kill);  // the end of its session is known now
    world.pass(97);
    CHECK(world.brokers->broker(0).logins().find("a", "a"));
    world.pass(5);
    CHECK_FALSE(world.brokers->broker(0).logins().find("a", "a"));
}
