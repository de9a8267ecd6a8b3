#include "server/transport/flush_list.h"

#include <boost/asio/post.hpp>
#include <cstddef>
#include <utility>

#include "server/transport/connection.h"

namespace pulsegate {

FlushList::FlushList(boost::asio::io_context& io) : io_(io) {}
FlushList::~FlushList() = default;

void FlushList::add(Connection& connection) {
    thread_.assert_here();
    connections_.emplace_back(&connection);
    if (std::exchange(posted_, true)) return;
    boost::asio::post(io_, [this] {
        posted_ = false;
        flush();
    });
}

void FlushList::flush() {
    thread_.assert_here();
    // Flushing one connection may put others on the list: it grows while it is walked.
    for (std::size_t i = 0; i < connections_.size(); ++i) {
        const auto connection = std::move(connections_[i]);
        connection->end_turn();
    }
    connections_.clear();
}

}  // namespace pulsegate
