#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loadgen/measure/measurements.h"
#include "loadgen/net/loop.h"
#include "loadgen/swarm/assignment.h"
#include "loadgen/swarm/truth_frames.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The clients of one worker, and their actions: they arrive, ping, write to each other, nap, fall
/// silent, vanish in a storm or misbehave, as the scenario says. It never sends less because the
/// server is slow. Its times are from this machine's clock.
///
/// The owner of the loop calls `turn` and leads it through the phases, in this order: `start`,
/// `go`, `drain`, `flows`, `add_flows` with all data for this worker, `judge`, `close_all`.
class Swarm {
public:
    /// Throws `std::runtime_error`, one line, if the server's name, a file of users or keys is bad.
    Swarm(Loop& loop, const Assignment& assignment);
    ~Swarm();

    /// Executes everything that is due; `late` is the lag of the loop. Returns when it must be
    /// called next.
    Time turn(Time now, Duration late);

    void start(Time at);   ///< clients begin to arrive
    void go(Time at);      ///< the measured part begins: messages, silence, naps, storms
    void drain(Time now);  ///< no new messages; messages in flight may arrive

    bool ramped() const;   ///< every client that starts at once is connected, or has failed
    bool settled() const;  ///< silent clients are judged, storms over, hostile clients seen
    bool drained() const;  ///< no message of this worker waits for an acknowledgement

    /// The messages that this worker's clients have sent, and the times when they were alive, for
    /// the `add_flows` of a worker, which may be this one. Bodies begin with the receiving worker's
    /// number, and have at most a mebibyte.
    std::vector<TruthFrame> flows();

    /// Returns false if it is not a body of `flows`.
    [[nodiscard]] bool add_flows(std::span<const std::uint8_t> body);

    /// Counts missing messages. The measurements are in the next `take_samples`.
    void judge(Time now);

    /// The measurements since the last call, by second since `start`.
    std::map<std::uint32_t, Measurements> take_samples(Time now);

    struct Mark {
        double second;
        std::string text;
    };
    std::vector<Mark> take_marks();

    /// The first few failures as text, and choices or events that the user may not expect.
    const std::vector<std::string>& examples() const;
    std::vector<std::string> notes() const;

    void close_all();

private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace pulsegate::load
