#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstddef>
#include <deque>

#include "server/base/owner_thread.h"

namespace pulsegate {

class Connection;

/// Connections of one shard that wait for something that a few of them get in each turn of the
/// event loop: when thousands want it at once, all others have their turns in between.
class TurnQueue {
public:
    /// False if there was nothing to be done: the next one comes in the same turn.
    using Serve = bool (Connection::*)();

    TurnQueue(boost::asio::io_context& io, std::size_t a_turn, Serve serve);
    ~TurnQueue();

    void add(Connection& connection);
    /// Ahead of those that wait: a connection that has begun should end before others begin.
    void add_first(Connection& connection);
    void serve_all();

private:
    void expect();
    void post();
    bool serve_first();

    boost::asio::io_context& io_;
    const std::size_t a_turn_;
    const Serve serve_;
    std::deque<boost::intrusive_ptr<Connection>> waiting_;
    bool posted_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
