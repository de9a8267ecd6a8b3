#include "server/transport/connections/flush_list.h"

#include <utility>

#include "server/base/memory/prefetch.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// Each write is one system call or more, and takes 5 to 10 microseconds. A message to a hundred
/// thousand clients is written in many rounds.
constexpr std::size_t writes_a_round = 512;

/// Connections are prefetched this far ahead. The connections of a room are written long after they
/// got the message, and the kernel has used the caches meanwhile.
constexpr std::size_t ahead = 4;

}  // namespace

FlushList::FlushList(Rounds& rounds) : rounds_(rounds), left_(writes_a_round) {}
FlushList::~FlushList() = default;

void FlushList::add(Connection& connection) {
    thread_.assert_here();
    connections_.emplace_back(&connection);
    expect();
}

void FlushList::expect() {
    if (std::exchange(posted_, true)) return;
    rounds_.later([this] {
        posted_ = false;
        left_ = writes_a_round;
        flush();
    });
}

void FlushList::flush() {
    thread_.assert_here();
    // Flushing one connection may add others, so the list grows during the loop.
    for (; next_ < connections_.size() && left_ > 0; --left_) {
        if (next_ + ahead < connections_.size())
            prefetch(connections_[next_ + ahead].get(), sizeof(Connection));
        const auto connection = std::move(connections_[next_++]);
        connection->end_turn();
    }
    if (left_ < writes_a_round / 2) expect();  // writes left in the round
    if (next_ < connections_.size()) return;
    connections_.clear();
    next_ = 0;
}

}  // namespace pulsegate
