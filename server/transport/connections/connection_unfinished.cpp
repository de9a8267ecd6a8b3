// The bytes that a connection keeps until the rest of a packet has arrived.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// A connection with an unfinished packet up to this size is never cut. A usual CONNECT is smaller.
constexpr std::size_t always_kept = 1024;

}  // namespace

/// The bytes of a parked connection may be complete packets that wait for the shard. It is not read
/// further, so these bytes don't grow and don't count, unless they are more than one read brings.
/// So other connections are not cut because of them.
void Connection::keep_unfinished(std::unique_ptr<Buffer> bytes) {
    partial_ = std::move(bytes);
    is_partial_counted_ = !parked_ || partial_->capacity() > context_.input.buffer().size();
    if (is_partial_counted_) context_.unfinished.add(partial_->capacity());
}

/// Unread input of a channel counts, too. For a socket, the kernel would keep it.
void Connection::count_channel() {
    const int error = errno;
    const bool grows = channel()->unread() > extras_->counted_record;
    count_record(channel()->unread());
    if (grows && reads()) judge_unfinished();
    errno = error;
}

/// The beginning of a record counts like the beginning of a packet.
void Connection::count_record(std::size_t bytes) {
    context_.unfinished.add(bytes - std::exchange(extras_->counted_record, bytes));
}

std::size_t Connection::unfinished() const {
    return (partial_ ? partial_->capacity() : 0) + (small_tls() ? small_tls()->kept() : 0) +
           (channel() ? channel()->unread() : 0);
}

/// A client that has not logged in may keep only a small part of the budget that is left. So
/// CONNECTs without an end don't use it up: connections with many bytes are cut, and those with few
/// bytes stay (Choudhury and Hahne, 1998).
void Connection::judge_unfinished() {
    const auto budget = context_.settings.unfinished_budget;
    const auto left = budget - std::min(context_.unfinished.all(), budget);
    const auto may_keep = state_ == State::login ? left / 16 : left;
    if (unfinished() <= std::max(may_keep, always_kept)) return;
    cut(Limit::memory_budget,
        "unfinished packets use too much of memory-budget, and this client's use the most");
}

std::unique_ptr<Buffer> Connection::take_unfinished() {
    if (partial_ && is_partial_counted_) context_.unfinished.subtract(partial_->capacity());
    return std::move(partial_);
}

}  // namespace pulsegate
