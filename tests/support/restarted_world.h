#pragma once

#include <algorithm>
#include <string>

#include "server/base/clock.h"
#include "tests/support/durable_cluster.h"

namespace pulsegate {

/// The calendar is that of the real clock again when this ends, which must be after the end of a
/// MovedWallClock.
struct RestoredCalendar {
    ~RestoredCalendar() { begin_calendar(); }
};

/// A gateway that is stopped and killed, and the time that passes for it and for its store.
class World {
public:
    explicit World(const BrokerSettings& settings = {}) : brokers(1, settings) {
        // Stamps never go back, and those of the world before are of the days that passed there.
        const auto last = static_cast<WallMillis>(next_stamp() / stamp_at(1));
        wall_.advance(std::max<WallMillis>(last - wall_now(), 0));
        begin_calendar(brokers.now());
    }

    void pass(unsigned seconds) {
        wait(seconds);
        do {
            brokers.settle();
        } while (brokers->broker(0).tick(brokers->now));
        brokers.settle();
    }
    void wait(unsigned seconds) {
        wall_.advance(WallMillis{seconds} * 1000);
        brokers->now += seconds * 1000;
    }
    /// While it is down.
    void sleep(unsigned seconds) {
        wall_.advance(WallMillis{seconds} * 1000);
        begin_calendar(brokers.now());
    }
    /// Somebody sets the clock.
    void set_ahead(unsigned seconds) { wall_.advance(WallMillis{seconds} * 1000); }
    void put_back(unsigned seconds) { wall_.advance(-WallMillis{seconds} * 1000); }

    DurableCluster brokers;

private:
    RestoredCalendar calendar_;
    MovedWallClock wall_;
};

/// How a process ends, and how much of what it has done is on the disk then.
enum class End { stop, kill, kill_within_a_second, kill_before_the_commit };

inline void restart(DurableCluster& brokers, End end) {
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

inline constexpr End ends_with_commits[] = {End::stop, End::kill, End::kill_within_a_second};

/// Of the messages that have come.
inline std::string texts(PlainClient& client) {
    std::string all;
    for (const auto& each : client.take_messages()) all += each.text + " ";
    return all;
}

}  // namespace pulsegate
