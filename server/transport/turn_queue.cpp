#include "server/transport/turn_queue.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/transport/connection.h"

namespace pulsegate {

TurnQueue::TurnQueue(boost::asio::io_context& io, std::size_t a_turn, Serve serve)
    : io_(io), a_turn_(a_turn), serve_(serve) {}

TurnQueue::~TurnQueue() = default;

void TurnQueue::add(Connection& connection) {
    waiting_.emplace_back(&connection);
    if (!std::exchange(posted_, true)) post();
}

void TurnQueue::serve_all() {
    while (!waiting_.empty()) serve_first();
}

void TurnQueue::post() {
    boost::asio::post(io_, [this] {
        for (std::size_t i = 0; i < a_turn_ && !waiting_.empty(); ++i) serve_first();
        posted_ = !waiting_.empty();
        if (posted_) post();
    });
}

void TurnQueue::serve_first() {
    const auto connection = std::move(waiting_.front());
    waiting_.pop_front();
    (*connection.*serve_)();
}

}  // namespace pulsegate
