#pragma once

#include <vector>

#include "loadgen/time.h"

namespace pulsegate::load {

/// A delay of the event loop beyond this is a stall: times that were measured across it are
/// unclear.
constexpr Duration stall_limit = std::chrono::milliseconds(100);

/// The program's own stalls of the last seconds.
///
/// What the server sends after a stall may be late because of it: the server may have had to wait
/// for acknowledgements, or for room in the connection. So a stall excuses as much delay as it
/// lasted, for some time after it.
class Stalls {
public:
    static constexpr Duration excuse_for = std::chrono::seconds(10);

    /// The event loop came back at `at`, and `length` late. The times only grow.
    void add(Time at, Duration length) {
        std::erase_if(recent_, [at](const Stall& stall) { return stall.end + excuse_for < at; });
        recent_.push_back({at, length});
    }

    /// How much of a delay that is seen at `at` may be the program's own.
    Duration before(Time at) const {
        Duration sum{};
        for (const Stall& stall : recent_)
            if (stall.end + excuse_for >= at) sum += stall.length;
        return sum;
    }

private:
    struct Stall {
        Time end;
        Duration length;
    };

    std::vector<Stall> recent_;  ///< in order
};

}  // namespace pulsegate::load
