#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "server/cluster/rules/pace.h"

namespace pulsegate {

/// What Redis says of a node's beats.
struct Beat {
    std::string incarnation{};
    std::uint64_t judged = 0;  ///< rises with each beat
    /// The same, but not in the node's first lease after a new run of Redis: who finds the new run
    /// late has not been silent.
    std::uint64_t counted = 0;
    bool is_condemned = false;

    bool operator==(const Beat&) const = default;
};

/// Says which nodes are dead, from their counters in Redis. It counts *answered time*: only between
/// two polls that Redis has answered, so neither a judge that was stopped nor a Redis that was away
/// makes anybody older. It has no clock.
class Judge {
public:
    Judge(std::string self, Pace pace, Millis now)
        : self_(std::move(self)), pace_(pace), watched_since_(now) {}

    /// Redis has answered a poll with all beats.
    void hear(Millis now, const std::vector<Beat>& beats);

    /// Redis has another run than before: it has lost something, perhaps. For a lease nobody is
    /// condemned; then answered time begins at zero.
    void begin_run(Millis now);
    bool is_first_lease(Millis now) const { return now < silent_until_; }

    /// In a new run: have others beaten so often, since this node's last poll, that they may have
    /// condemned it in the part that Redis has lost? Before `hear`.
    bool was_silent(const std::vector<Beat>& beats) const;

    /// The answered time since a node's last beat.
    Millis standstill(const std::string& incarnation) const;
    bool is_dead(const Beat& beat, bool is_process_gone) const;

    /// May a node be found dead in one of the next two polls, if it does not beat?
    bool may_condemn_soon() const;

    /// Redis has been told, and knows it.
    void note_condemned(const std::string& incarnation);

    /// Has every other node beaten while this one was watching, or been condemned, or had a lease
    /// to do so? Then none of them is about to come back with a token that Redis has lost.
    bool has_heard_all(Millis now) const;

private:
    struct Watched {
        Beat last{};
        Millis stands = 0;
        std::uint64_t polls = 0;  ///< in which the counter stood still
        bool has_beaten = false;  ///< since it is watched
    };

    std::uint64_t polls_in_lease() const;

    const std::string self_;
    const Pace pace_;
    const Millis watched_since_;
    std::map<std::string, Watched> others_;
    Millis last_answer_ = never;
    Millis silent_until_ = never;

    static constexpr Millis never = std::numeric_limits<Millis>::min();
};

}  // namespace pulsegate
