#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <map>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/transport/connection_owner.h"
#include "server/transport/flush_list.h"

namespace pulsegate {

/// The work of one turn, in messages to one client; then others get theirs.
inline constexpr std::uint64_t work_a_turn = 16'384;

/// The connections of one shard that are not read for a while, because they send too fast or the
/// shard has too much to do. They go on when their time has come, each as far as the turn's work
/// allows.
class ParkedConnections {
public:
    ParkedConnections(boost::asio::io_context& io, ConnectionOwner& owner, FlushList& flush_list);
    ~ParkedConnections();

    void add(Connection& connection, Millis until);

private:
    void wait();
    void resume_due();

    ConnectionOwner& owner_;
    FlushList& flush_list_;
    boost::asio::steady_timer timer_;
    std::multimap<Millis, boost::intrusive_ptr<Connection>> parked_;  ///< by when they go on
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
