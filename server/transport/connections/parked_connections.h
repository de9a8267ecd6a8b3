#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <deque>
#include <map>
#include <vector>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/loop/rounds.h"
#include "server/transport/connections/connection_owner.h"
#include "server/transport/connections/flush_list.h"
#include "server/transport/connections/turn_work.h"

namespace pulsegate {

/// The connections of one shard that are not read for a while. They send too fast, have caused much
/// work, or need more work than fits into a round. After that time they take turns: each continues
/// if the round has work left and no other shard is behind.
class ParkedConnections {
public:
    ParkedConnections(Rounds& rounds, ConnectionOwner& owner, const TurnWork& turn,
                      FlushList& flush_list);
    ~ParkedConnections();

    /// Parks the connection until that time, which may be in the past, and then until its turn
    /// comes.
    void add(Connection& connection, Millis until);

    /// At rest: handles the last packets of peers that have ended their streams. Returns false if
    /// there were any.
    bool finish_ended();

private:
    void wait();
    void wake();
    void expect_turn();
    void serve();
    void retry();

    Rounds& rounds_;
    ConnectionOwner& owner_;
    const TurnWork& turn_;
    FlushList& flush_list_;
    boost::asio::steady_timer timer_;
    boost::asio::steady_timer retry_timer_;
    std::multimap<Millis, boost::intrusive_ptr<Connection>> parked_;  ///< by the time when they
                                                                      ///< continue
    std::deque<boost::intrusive_ptr<Connection>> ready_;              ///< in the order of turns
    bool expected_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
