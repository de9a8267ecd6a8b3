#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "loadgen/kill/message_checker.h"
#include "loadgen/kill/options.h"
#include "loadgen/kill/presence_checker.h"
#include "loadgen/net/loop.h"

namespace pulsegate::kill {

/// Random choices, from the seed.
class RandomChoices {
public:
    explicit RandomChoices(std::uint64_t seed) : engine_(seed) {}

    Duration between(Duration least, Duration most) {
        return Duration(std::uniform_int_distribution(least.count(), most.count())(engine_));
    }
    /// From 0 to `count` - 1.
    std::uint16_t below(std::size_t count) {
        return static_cast<std::uint16_t>(
            std::uniform_int_distribution<std::size_t>(0, count - 1)(engine_));
    }
    std::size_t weighted(std::discrete_distribution<std::size_t>& weights) {
        return weights(engine_);
    }

private:
    std::mt19937_64 engine_;
};

/// The keepalive of clients that stay away after a kill, so that a run sees their timeout.
constexpr std::chrono::seconds short_keepalive(2);

/// The receivers of messages. Receivers and groups are numbered together: first receivers with a
/// kept session, then receivers with clean sessions (guests, which have an inbox and rooms, but no
/// subscription), then the groups.
struct ReceiverCounts {
    explicit ReceiverCounts(const Options& options)
        : kept(options.receivers),
          guests(options.kinds.count(Kind::inbox) + options.kinds.count(Kind::room) > 0 ? 6 : 0),
          groups(options.kinds.count(Kind::shared) > 0 ? 2 : 0) {}

    std::uint16_t all_receivers() const { return kept + guests; }
    std::uint16_t all() const { return all_receivers() + groups; }

    const std::uint16_t kept, guests, groups;
    static constexpr std::uint16_t members_of_group = 3;
};

/// How many messages are on their way to each receiver. Brokers silently drop messages beyond the
/// limits of their queues, so publishers choose another receiver before that.
class Backlog {
public:
    explicit Backlog(std::size_t receivers) : waiting_(receivers) {}

    void add(std::uint16_t receiver) { ++waiting_[receiver]; }
    void remove(std::uint16_t receiver) {
        if (waiting_[receiver] > 0) --waiting_[receiver];
    }
    /// No more messages arrive: the counted ones are lost.
    void clear(std::uint16_t receiver) { waiting_[receiver] = 0; }
    bool has_room(std::uint16_t receiver) const { return waiting_[receiver] < limit; }

private:
    static constexpr std::uint32_t limit = 500;
    std::vector<std::uint32_t> waiting_;
};

/// The objects that all clients of a run share.
struct RunContext {
    load::Loop& loop;
    const Options& options;
    const std::uint64_t run;  ///< names topics and clients
    MessageChecker messages;
    PresenceChecker presence;
    RandomChoices random;
    ReceiverCounts receivers;
    Backlog backlog;
    std::string http{};                               ///< URL, of the node that owns the data
    std::map<std::string, std::uint16_t> place_of{};  ///< where each client last connected
};

}  // namespace pulsegate::kill
