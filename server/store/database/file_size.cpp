#include "server/store/database/file_size.h"

namespace pulsegate {

namespace {

constexpr std::size_t bytes_a_page = 4096;

std::size_t number(Statement& statement) {
    std::size_t found = 0;
    statement.each([&](const Row& row) { found = row.as<std::size_t>(0); });
    return found;
}

}  // namespace

// A commit cuts off 64 pages, a quarter of a megabyte. It hardly writes more than this anyway.
FileSize::FileSize(Database& database)
    : database_(database),
      page_count_(database, "PRAGMA page_count"),
      free_count_(database, "PRAGMA freelist_count"),
      cut_(database, "PRAGMA incremental_vacuum(64)") {
    count_pages();
}

void FileSize::shrink() {
    if (!is_to_shrink()) return;
    cut_.run();
    is_cut_ = true;
}

/// Both numbers are in the first page, and most commits don't write this page. SQLite prepares a
/// statement anew to count pages, which would take a third of the time of a small commit.
void FileSize::measure() {
    if (database_.take_first_page_written()) count_pages();
}

void FileSize::count_pages() {
    pages_ = number(page_count_);
    free_ = number(free_count_);
    used_.store((pages_ - free_) * bytes_a_page, std::memory_order_relaxed);
}

}  // namespace pulsegate
