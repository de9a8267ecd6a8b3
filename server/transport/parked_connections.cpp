#include "server/transport/parked_connections.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "server/transport/connection.h"

namespace pulsegate {

ParkedConnections::ParkedConnections(boost::asio::io_context& io, ConnectionOwner& owner,
                                     FlushList& flush_list)
    : owner_(owner), flush_list_(flush_list), timer_(io) {}
ParkedConnections::~ParkedConnections() = default;

void ParkedConnections::add(Connection& connection, Millis until) {
    thread_.assert_here();
    const auto place = parked_.emplace(until, &connection);
    if (place == parked_.begin()) wait();
}

void ParkedConnections::wait() {
    const Millis left = parked_.begin()->first - monotonic_now();
    timer_.expires_after(std::chrono::milliseconds(std::max<Millis>(left, 1)));
    timer_.async_wait([this](boost::system::error_code error) {
        if (!error) resume_due();
    });
}

void ParkedConnections::resume_due() {
    const Millis now = monotonic_now();
    const auto began_at = owner_.work();
    std::vector<boost::intrusive_ptr<Connection>> due;
    while (!parked_.empty() && parked_.begin()->first <= now)
        due.push_back(std::move(parked_.extract(parked_.begin()).mapped()));
    for (const auto& connection : due) {
        if (connection->closed()) continue;
        if (owner_.congested() || owner_.work() - began_at > work_a_turn)
            add(*connection, now + 1);
        else
            connection->resume();
    }
    if (!parked_.empty()) wait();
    flush_list_.flush();
}

}  // namespace pulsegate
