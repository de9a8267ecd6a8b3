// What it costs to watch over many connections: our wheel, and what others use instead.
//
//     wheel-bench [MAX_CONNECTIONS]        10,000,000 unless told otherwise: 3 GB, a minute
//
// Every connection may be silent for 30 seconds and speaks every 20, in random order: a simulated
// second is `connections / 20` touches and one tick, and nobody ever expires. Whatever watches a
// connection lies in an object of realistic size, so all walk the same distances in memory.

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <queue>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "wheel/wheel.h"

using namespace pulsegate;

namespace {

constexpr Tick limit = 30;
constexpr Tick keepalive = 20;

template <class Watch>
struct Connection : Watch {
    using Watch::Watch;
    std::byte rest[256 - sizeof(Watch)] = {};
};

// Each alternative is one class with two operations: `touch(i)`, connection i was heard of; and
// `tick()`, a second has passed, which returns how many expired.

class OurWheel {
public:
    static constexpr const char* name = "wheel, relink";

    explicit OurWheel(std::size_t size) : connections_(size) {}

    void touch(std::size_t i) { wheel_.schedule(connections_[i], wheel_.now() + limit); }

    std::size_t tick() {
        std::size_t expired = 0;
        wheel_.advance(wheel_.now() + 1, [&](Wheel::Node&) { ++expired; });
        return expired;
    }

protected:
    Wheel wheel_;
    std::vector<Connection<Wheel::Node>> connections_;
};

/// Each touch moves the deadline by a lap, into the slot where it is. The ticks are the wheel's
/// worst: every slot is full when time passes it, and nobody in it is due.
class OurWheelSameSlot : public OurWheel {
public:
    static constexpr const char* name = "wheel, same slot";

    using OurWheel::OurWheel;

    void touch(std::size_t i) {
        Wheel::Node& node = connections_[i];
        const Tick deadline = node.scheduled() ? node.deadline() : wheel_.now() + limit;
        wheel_.schedule(node, deadline + Wheel::slots);
    }
};

/// The textbook wheel: a set of shared pointers in every slot.
class SetPerSlot {
public:
    static constexpr const char* name = "set per slot";

    explicit SetPerSlot(std::size_t size) : connections_(size) {
        for (auto& connection : connections_) connection = std::make_shared<Connection<Place>>();
    }

    void touch(std::size_t i) {
        const auto& connection = connections_[i];
        slots_[connection->slot].erase(connection);
        connection->slot = static_cast<Tick>((now_ + limit) % std::size(slots_));
        slots_[connection->slot].insert(connection);
    }

    std::size_t tick() {
        auto& slot = slots_[++now_ % std::size(slots_)];
        const std::size_t expired = slot.size();
        slot.clear();
        return expired;
    }

private:
    struct Place {
        Tick slot = 0;
    };

    Tick now_ = 0;
    std::vector<std::shared_ptr<Connection<Place>>> connections_;
    std::unordered_set<std::shared_ptr<Connection<Place>>> slots_[limit + 1];
};

struct Deadline {
    Tick deadline = std::numeric_limits<Tick>::max();
};

/// A heap of all deadlines ever set: those that were moved since are dropped when they come up.
class LazyHeap {
public:
    static constexpr const char* name = "heap, lazy";

    explicit LazyHeap(std::size_t size) : connections_(size) {}

    void touch(std::size_t i) {
        connections_[i].deadline = now_ + limit;
        heap_.emplace(now_ + limit, static_cast<std::uint32_t>(i));
    }

    std::size_t tick() {
        ++now_;
        std::size_t expired = 0;
        for (; !heap_.empty() && heap_.top().first <= now_; heap_.pop()) {
            if (connections_[heap_.top().second].deadline <= now_) ++expired;
        }
        return expired;
    }

private:
    using Entry = std::pair<Tick, std::uint32_t>;

    Tick now_ = 0;
    std::vector<Connection<Deadline>> connections_;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

/// Nothing but a deadline each, and a look at everybody every second.
class FullScan {
public:
    static constexpr const char* name = "full scan";

    explicit FullScan(std::size_t size) : connections_(size) {}

    void touch(std::size_t i) { connections_[i].deadline = now_ + limit; }

    std::size_t tick() {
        ++now_;
        std::size_t expired = 0;
        for (const auto& connection : connections_) {
            if (connection.deadline <= now_) ++expired;
        }
        return expired;
    }

private:
    Tick now_ = 0;
    std::vector<Connection<Deadline>> connections_;
};

/// An Asio timer in every connection, armed again at every touch. It runs in real time, so nobody
/// comes near the limit; the ticks deliver the waits that the touches cancelled.
class TimerEach {
public:
    static constexpr const char* name = "Asio timer each";

    explicit TimerEach(std::size_t size) {
        connections_.reserve(size);
        while (connections_.size() < size) connections_.emplace_back(io_);
    }

    void touch(std::size_t i) {
        connections_[i].expires_after(std::chrono::seconds(limit));
        connections_[i].async_wait([this](boost::system::error_code error) {
            if (!error) ++expired_;
        });
    }

    std::size_t tick() {
        io_.poll();
        return std::exchange(expired_, 0);
    }

private:
    std::size_t expired_ = 0;
    boost::asio::io_context io_;
    std::vector<Connection<boost::asio::steady_timer>> connections_;
};

/// In nanoseconds.
struct Cost {
    double touch;
    double tick;
    double both;  // one touch and its share of the ticks: the price of a packet
};

template <class Alternative>
Cost measure(std::size_t size) {
    using Clock = std::chrono::steady_clock;
    Alternative alternative(size);
    const std::size_t touches_per_second = size / keepalive;
    Clock::duration touching{}, ticking{};

    std::mt19937 random(1);
    std::vector<std::uint32_t> order(size);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    auto next = order.begin();

    const auto run = [&](std::size_t seconds) {
        touching = ticking = {};
        for (std::size_t second = 0; second < seconds; ++second) {
            const auto last = next + static_cast<std::ptrdiff_t>(touches_per_second);
            std::shuffle(next, last, random);  // the order changes from time to time

            const auto start = Clock::now();
            for (; next != last; ++next) alternative.touch(*next);
            const auto middle = Clock::now();
            const std::size_t expired = alternative.tick();
            ticking += Clock::now() - middle;
            touching += middle - start;

            if (next == order.end()) next = order.begin();
            if (expired != 0) {
                fmt::print(stderr, "{}: a connection expired though it spoke\n", Alternative::name);
                std::exit(1);
            }
        }
    };

    run(limit + 1);  // after that every slot has been in use, and the heap is as large as it gets
    const std::size_t seconds = std::max<std::size_t>(10, 2'000'000 / touches_per_second);
    run(seconds);

    const auto each = [](Clock::duration sum, std::size_t count) {
        return std::chrono::duration<double, std::nano>(sum).count() / static_cast<double>(count);
    };
    const std::size_t touches = seconds * touches_per_second;
    return {each(touching, touches), each(ticking, seconds), each(touching + ticking, touches)};
}

std::string brief(std::size_t size) {
    return size < 1'000'000 ? fmt::format("{}k", size / 1000)
                            : fmt::format("{}M", size / 1'000'000);
}

std::string times(double ratio) {
    return ratio < 10 ? fmt::format("{:.1f}x", ratio) : fmt::format("{:.0f}x", ratio);
}

struct Row {
    std::string name;
    std::vector<Cost> costs;  // by size
};

template <class... Alternatives>
std::vector<Row> measure_all(const std::vector<std::size_t>& sizes) {
    std::vector<Row> rows{{Alternatives::name, {}}...};
    for (const std::size_t size : sizes) {
        fmt::print(stderr, "measuring {} connections\n", brief(size));
        auto row = rows.begin();
        ((row++)->costs.push_back(measure<Alternatives>(size)), ...);
    }
    return rows;
}

/// One row per alternative, one column per size with its ratio to the first row, and the growth
/// from the smallest size to the largest.
void print(const char* title, double unit, double Cost::*cost, const std::vector<Row>& rows,
           const std::vector<std::size_t>& sizes) {
    fmt::print("{:<18}", title);
    for (const std::size_t size : sizes) fmt::print("{:>22}", brief(size));
    fmt::print("{:>10}\n", "growth");
    for (const Row& row : rows) {
        fmt::print("  {:<16}", row.name);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const double value = row.costs[i].*cost;
            const double base = rows.front().costs[i].*cost;
            fmt::print("{:>12.2f} {:>9}", value / unit, times(value / base));
        }
        fmt::print("{:>10}\n", times(row.costs.back().*cost / (row.costs.front().*cost)));
    }
    fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t max = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
    std::vector<std::size_t> sizes{10'000};
    while (sizes.back() * 10 <= max) sizes.push_back(sizes.back() * 10);

    const std::vector<Row> rows =
        measure_all<OurWheel, OurWheelSameSlot, TimerEach, LazyHeap, SetPerSlot, FullScan>(sizes);
    fmt::print(
        "'same slot' shows the wheel's worst ticks: they pass a thirtieth of all connections,\n"
        "with deadlines that are laps away. Ratios are to the first row of the same column.\n\n");
    print("touch, ns", 1, &Cost::touch, rows, sizes);
    print("tick, us", 1000, &Cost::tick, rows, sizes);
    print("both, ns a touch", 1, &Cost::both, rows, sizes);
}
