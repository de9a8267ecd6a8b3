#include "server/transport/connections/turn_queue.h"

#include <utility>

#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// The maximum number of connections that one round examines. Many have nothing to do, usually
/// because they have gone, and these cost little.
constexpr std::size_t looks_a_turn = 64;

}  // namespace

TurnQueue::TurnQueue(Rounds& rounds, std::size_t a_turn, Turns turns, Serve serve)
    : rounds_(rounds), a_turn_(a_turn), turns_(turns), serve_(serve) {}

TurnQueue::~TurnQueue() = default;

void TurnQueue::add(Connection& connection) {
    thread_.assert_here();
    const Address address = turns_ == Turns::by_address ? connection.origin().address : Address();
    auto& of_address = waiting_[address];
    if (of_address.empty()) order_.push_back(address);
    of_address.emplace_back(&connection);
    expect();
}

void TurnQueue::expect() {
    if (!std::exchange(posted_, true)) post();
}

void TurnQueue::serve_all() {
    thread_.assert_here();
    while (!waiting_.empty()) serve_first();
}

void TurnQueue::post() {
    rounds_.later([this] {
        std::size_t served = 0;
        for (std::size_t looks = 0; looks < looks_a_turn && served < a_turn_ && !waiting_.empty();
             ++looks)
            if (serve_first()) ++served;
        posted_ = !waiting_.empty();
        if (posted_) post();
    });
}

bool TurnQueue::serve_first() {
    const auto of_address = waiting_.find(order_.front());
    const auto connection = std::move(of_address->second.front());
    of_address->second.pop_front();
    if (of_address->second.empty()) {
        waiting_.erase(of_address);
        order_.pop_front();
    } else {
        order_.splice(order_.end(), order_, order_.begin());
    }
    return (*connection.*serve_)();
}

}  // namespace pulsegate
