#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/ledger/event_log.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The log of events, with the newest few hundred MB, and the events that the webhook refuses. Each
/// row has the sum of all bytes up to it, so the first and the last row show the size of the log.
/// The last row is never deleted, so that no number is used twice. If a crash may have lost the
/// last rows, the next start leaves a million numbers out. `begin`, `finish` and `committed` are
/// called for each transaction, which may fail and be tried again. More than half of its members
/// are prepared statements.
class EventTable {
public:
    EventTable(Database& database, const EventLogSettings& settings);

    /// Call it before the first transaction.
    void set_max_bytes(std::size_t bytes) { room_ = max_bytes_ = bytes; }
    /// While this is set, no event is deleted, because another process with other limits may
    /// continue with the log. Any thread.
    void keep_all(bool keeps_all) { keeps_all_.store(keeps_all, std::memory_order_relaxed); }
    /// Halves the log, because the disk is nearly full. Returns false if there is hardly anything
    /// to delete.
    bool halve();

    void begin() { next_ = state_; }
    void put(const PutEvent& put);
    void delivered(EventDelivered delivered);
    void put(const PutDeadLetter& put);
    void drop(DropDeadLetters& drop);
    void replay(ReplayDeadLetters& replay);
    /// Deletes the oldest events beyond the limit, some thousands at most.
    void finish();
    void committed();
    /// Are more events beyond the limit than `finish` has deleted?
    bool is_to_trim() const {
        return !keeps_all() && state_.bytes > room_ && state_.first < state_.last;
    }

    EventPage read(EventNumber after, std::uint32_t kinds, std::size_t most);
    /// Damaged events are left out. Among events to send again, a damaged one has no body, so that
    /// it can be dropped.
    std::vector<DeadLetter> dead_letters(EventNumber after, bool to_replay, std::size_t most);

    // From any thread.

    EventLogState state() const;
    /// `told` is called on the ledger's thread after commits with new events, or when there is
    /// something to replay, until the table ends.
    void watch(std::function<void()> told);

private:
    bool keeps_all() const { return keeps_all_.load(std::memory_order_relaxed); }
    void load();
    void trim();
    EventNumber end_of_excess();
    std::uint64_t wanted(EventNumber after, EventNumber upto);
    void count_dead();

    Database& database_;
    const std::uint32_t webhook_kinds_;
    std::size_t max_bytes_;
    std::size_t room_;  ///< smaller than the maximum while the log is being halved
    std::atomic<bool> keeps_all_{false};
    Statement put_;
    Statement read_;
    Statement totals_;
    Statement count_wanted_;
    Statement trim_;
    Statement put_meta_;
    Statement put_dead_;
    Statement refuse_again_;
    Statement drop_dead_;
    Statement drop_oldest_dead_;
    Statement replay_;
    Statement count_dead_;
    Statement list_dead_;

    // State of the ledger's thread.
    struct State : EventLogState {
        std::uint64_t total = 0;         ///< bytes of all events ever
        std::uint64_t total_before = 0;  ///< bytes of the deleted events
    };
    State state_;
    State next_;  ///< after the transaction

    mutable std::mutex mutex_;  ///< guards the next members
    EventLogState shown_;
    std::vector<std::function<void()>> watchers_;
};

}  // namespace pulsegate
