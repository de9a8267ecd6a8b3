#pragma once

#include <atomic>
#include <cstddef>

#include "server/store/database/database.h"

namespace pulsegate {

/// How much of the database is in use. Deleted data leaves unused pages, which are used again. When
/// they are most of the file, the file gets smaller. It belongs to the ledger's thread.
class FileSize {
public:
    explicit FileSize(Database& database);

    /// Cuts off some pages if most of the file is unused. Call it in a transaction.
    void shrink();
    bool is_to_shrink() const { return free_ >= worth_shrinking && free_ > pages_ / 2; }
    /// Is it as small as it should be, but so far only in the WAL?
    bool awaits_checkpoint() const { return is_cut_ && !is_to_shrink(); }
    void checkpointed() { is_cut_ = false; }

    /// Call it after a commit.
    void measure();

    /// Bytes in use, as of the last commit. Any thread may call it.
    std::size_t used() const { return used_.load(std::memory_order_relaxed); }

private:
    void count_pages();

    static constexpr std::size_t worth_shrinking = 1024;  ///< pages

    Database& database_;
    Statement page_count_;
    Statement free_count_;
    Statement cut_;
    std::size_t pages_ = 0;
    std::size_t free_ = 0;
    bool is_cut_ = false;
    std::atomic<std::size_t> used_{0};
};

}  // namespace pulsegate
