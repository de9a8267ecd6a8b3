#include "server/transport/flush_list.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/transport/connection.h"

namespace pulsegate {

namespace {

/// Each is a system call or more: a message to a hundred thousand is written in many turns.
constexpr std::size_t writes_a_turn = 2048;

}  // namespace

FlushList::FlushList(boost::asio::io_context& io) : io_(io) {}
FlushList::~FlushList() = default;

void FlushList::add(Connection& connection) {
    thread_.assert_here();
    connections_.emplace_back(&connection);
    expect();
}

void FlushList::expect() {
    if (std::exchange(posted_, true)) return;
    boost::asio::post(io_, [this] {
        posted_ = false;
        flush();
    });
}

void FlushList::flush() {
    thread_.assert_here();
    // Flushing one connection may put others on the list: it grows while it is walked.
    for (auto left = writes_a_turn; next_ < connections_.size() && left > 0; --left) {
        const auto connection = std::move(connections_[next_++]);
        connection->end_turn();
    }
    if (next_ < connections_.size()) return expect();
    connections_.clear();
    next_ = 0;
}

}  // namespace pulsegate
