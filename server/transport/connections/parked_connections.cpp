#include "server/transport/connections/parked_connections.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/transport/connections/connection.h"

namespace pulsegate {

ParkedConnections::ParkedConnections(Rounds& rounds, ConnectionOwner& owner, const TurnWork& turn,
                                     FlushList& flush_list)
    : rounds_(rounds),
      owner_(owner),
      turn_(turn),
      flush_list_(flush_list),
      timer_(rounds.context()),
      retry_timer_(rounds.context()) {}
ParkedConnections::~ParkedConnections() = default;

void ParkedConnections::add(Connection& connection, Millis until) {
    thread_.assert_here();
    if (until <= monotonic_now()) {
        ready_.emplace_back(&connection);
        return expect_turn();
    }
    const auto place = parked_.emplace(until, &connection);
    if (place == parked_.begin()) wait();
}

void ParkedConnections::wait() {
    const Millis left = parked_.begin()->first - monotonic_now();
    rounds_.after(timer_, std::chrono::milliseconds(std::max<Millis>(left, 1)), [this] { wake(); });
}

void ParkedConnections::wake() {
    const Millis now = monotonic_now();
    while (!parked_.empty() && parked_.begin()->first <= now)
        ready_.push_back(std::move(parked_.extract(parked_.begin()).mapped()));
    if (!parked_.empty()) wait();
    if (!ready_.empty()) expect_turn();
}

void ParkedConnections::expect_turn() {
    if (std::exchange(expected_, true)) return;
    rounds_.later([this] { serve(); });
}

void ParkedConnections::serve() {
    expected_ = false;
    // Serves only the connections that are ready now. If one of them is parked again, it has had
    // its turn.
    for (auto left = ready_.size(); left > 0 && !turn_.used_up() && !owner_.congested(); --left) {
        const auto connection = std::move(ready_.front());
        ready_.pop_front();
        if (!connection->closed()) connection->resume();
    }
    flush_list_.flush();
    if (ready_.empty()) return;
    if (owner_.congested()) return retry();
    expect_turn();
}

bool ParkedConnections::finish_ended() {
    std::vector<boost::intrusive_ptr<Connection>> ended;
    const auto take = [&](const boost::intrusive_ptr<Connection>& each) {
        if (!each->has_last_packets()) return false;
        ended.push_back(each);
        return true;
    };
    std::erase_if(ready_, take);
    std::erase_if(parked_, [&](const auto& each) { return take(each.second); });
    for (const auto& each : ended) each->finish_input();
    return ended.empty();
}

/// Tries again later, because another shard needs time to catch up. Asking in every round would
/// only keep this shard busy.
void ParkedConnections::retry() {
    expected_ = true;
    rounds_.after(retry_timer_, std::chrono::milliseconds(1), [this] { serve(); });
}

}  // namespace pulsegate
