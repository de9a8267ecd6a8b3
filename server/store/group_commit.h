#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/database/file_size.h"
#include "server/store/mirror/mirror.h"
#include "server/store/request.h"
#include "server/store/tables/store_reader.h"
#include "server/store/tables/unit_writer.h"
#include "server/store/tables/waiting_index.h"

namespace pulsegate {

/// Commits many requests in one transaction, and keeps the index and the floor of stamps consistent
/// with the committed data. Half of its members are parts that it uses; the others have the state
/// of the transaction, which may have to be repeated.
class GroupCommit {
public:
    struct Terms {
        Stamp floor = 0;  ///< that the next start would find
        /// A transaction takes no more requests after that time.
        std::chrono::milliseconds longest_transaction{};
    };
    /// `mirror` may be null.
    GroupCommit(Database& database, WaitingIndex& index, DelayedTable& delayed, EventTable& events,
                RecentDrops& drops, Mirror* mirror, const Terms& terms);

    /// Executes requests from the front, in order, and commits them: exactly `count`, or as many as
    /// the time and 4 MB allow. Returns their number. If the database has an error afterwards,
    /// nothing has changed: try the same number again.
    std::size_t commit(std::deque<Request>& requests, std::optional<std::size_t> count);

    /// The next commit writes the floor, even if there are no requests.
    void write_floor() { must_write_floor_ = true; }

    /// The next commit begins a log with this number.
    void begin_wal(std::uint64_t number) { next_wal_ = number; }

    /// Is there something to write without requests?
    bool has_work() const {
        return !index_.dead().empty() || writer_.removes_dropped_rows() ||
               file_size_.is_to_shrink() || events_.is_to_trim() || floor_is_due();
    }

    /// Is so much to be deleted that the next commit should not wait for requests?
    bool is_behind() const {
        constexpr std::size_t many = 1000;
        return index_.dead().size() > many || writer_.removes_dropped_rows() ||
               file_size_.is_to_shrink();
    }

    /// The number of operations that the database has rejected since the start. Any thread may call
    /// it.
    std::uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

    FileSize& file_size() { return file_size_; }
    const FileSize& file_size() const { return file_size_; }

private:
    std::size_t attempt(std::deque<Request>& requests, std::optional<std::size_t> count);
    void remove_dead();
    void perform(Request& request);
    void perform(Unit& unit, const Request& request);
    void exclude_mistake();
    void keep_floor();
    bool floor_is_due() const;
    void committed(const std::deque<Request>& requests, std::size_t count);
    void add_to_index(const Request& request, const Unit& unit);

    Database& database_;
    WaitingIndex& index_;
    DelayedTable& delayed_;
    EventTable& events_;
    RecentDrops& drops_;
    Mirror* const mirror_;
    const std::chrono::milliseconds longest_;
    UnitWriter writer_;
    StoreReader reader_;
    FileSize file_size_;
    Statement begin_;
    Statement commit_;
    Stamp floor_;       ///< committed
    Stamp next_floor_;  ///< after the transaction
    Stamp highest_ = 0;
    bool must_write_floor_ = false;
    std::optional<std::uint64_t> next_wal_;
    std::size_t removed_ = 0;      ///< dead messages that this transaction removes
    Request* mistaken_ = nullptr;  ///< this request has caused the error, not the disk
    std::size_t last_tried_ = 0;   ///< index of the last tried operation of a unit
    std::atomic<std::uint64_t> left_out_{0};
};

}  // namespace pulsegate
