#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "server/limits/address.h"

namespace pulsegate {

/// The target of a trace: a user, a client id of any user, or an address.
struct TraceTarget {
    enum class Kind : std::uint8_t { user, client, address };

    Kind kind{};
    std::string name{};  ///< name of the user or the client
    Address address{};
};

/// A live record of the events of one user, client or address. The shards put events in, and one
/// reader takes them out. If the reader is slow, further events are counted but not kept.
class Trace {
public:
    static constexpr std::size_t most_events = 1000;
    static constexpr std::size_t most_bytes = 256 * 1024;

    /// `wake` tells the reader that there are events. Any thread may call it.
    Trace(TraceTarget target, std::function<void()> wake)
        : target_(std::move(target)), wake_(std::move(wake)) {}

    const TraceTarget& target() const { return target_; }

    // From any thread:

    void put(std::string event);
    /// The reader is gone, or the time is over: the shards forget the trace at their next event.
    void end() { has_ended_.store(true, std::memory_order_relaxed); }
    bool has_ended() const { return has_ended_.load(std::memory_order_relaxed); }

    struct Taken {
        std::deque<std::string> events{};
        std::uint64_t lost = 0;  ///< further events that had no room
    };
    Taken take();

private:
    const TraceTarget target_;
    const std::function<void()> wake_;
    std::atomic<bool> has_ended_{false};
    std::mutex mutex_;
    std::deque<std::string> events_;
    std::size_t bytes_ = 0;
    std::uint64_t lost_ = 0;
};

}  // namespace pulsegate
