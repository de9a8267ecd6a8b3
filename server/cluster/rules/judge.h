#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "server/cluster/rules/pace.h"

namespace pulsegate {

/// A node's heartbeats, as Redis has them.
struct Beat {
    std::string incarnation{};
    std::uint64_t judged = 0;  ///< rises with each heartbeat
    /// The same, but it does not rise in the node's first lease after a new run of Redis: a node
    /// that finds the new run late was not silent.
    std::uint64_t counted = 0;
    bool is_condemned = false;

    bool operator==(const Beat&) const = default;
};

/// Decides which nodes are dead, from their counters in Redis. It counts *answered time*: only the
/// time between two polls that Redis has answered. So no node seems older when the judge was
/// stopped or Redis was away. It has no clock.
class Judge {
public:
    Judge(std::string self, Pace pace, Millis now)
        : self_(std::move(self)), pace_(pace), watched_since_(now) {}

    /// Call it when Redis has answered a poll, with all heartbeats.
    void hear(Millis now, const std::vector<Beat>& beats);

    /// Redis has a different run than before, and may have lost changes. No node is condemned for a
    /// lease. After that, answered time begins at zero.
    void begin_run(Millis now);
    bool is_first_lease(Millis now) const { return now < silent_until_; }

    /// Call it in a new run, before `hear`. Since this node's last poll, have others sent so many
    /// heartbeats that they may have condemned this node in the part that Redis has lost?
    bool was_silent(const std::vector<Beat>& beats) const;

    /// The answered time since a node's last heartbeat.
    Millis standstill(const std::string& incarnation) const;
    bool is_dead(const Beat& beat, bool is_process_gone) const;

    /// Can a node that sends no heartbeat be found dead in one of the next two polls?
    bool may_condemn_soon() const;

    /// Call it when Redis knows that the node is condemned.
    void note_condemned(const std::string& incarnation);

    /// Has every other node sent a heartbeat while this one was watching, or been condemned, or had
    /// a lease to do so? Then none of them can come back with a token that Redis has lost.
    bool has_heard_all(Millis now) const;

    /// How many living nodes may claim before this one? The data has had no owner since
    /// `free_since`. A node that has just joined comes after the earlier nodes. So if a node dies
    /// after each claim and is started again, another node is the next to claim.
    std::size_t claimants_before(Millis free_since) const;

private:
    struct Watched {
        Beat last{};
        Millis stands = 0;
        std::uint64_t polls = 0;  ///< polls in which the counter did not rise
        bool has_beaten = false;  ///< it has sent a heartbeat while it was watched
        Millis since = 0;         ///< when it was first seen
        bool is_senior = false;   ///< it had sent a heartbeat before this node's first poll
    };

    std::uint64_t polls_in_lease() const;
    bool had_just_joined(Millis since, Millis now) const;

    const std::string self_;
    const Pace pace_;
    const Millis watched_since_;
    std::map<std::string, Watched> others_;
    bool has_polled_ = false;
    Millis last_answer_ = never;
    Millis silent_until_ = never;

    static constexpr Millis never = std::numeric_limits<Millis>::min();
};

}  // namespace pulsegate
