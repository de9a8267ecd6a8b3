#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <list>

#include "server/base/owner_thread.h"
#include "server/limits/address.h"
#include "server/loop/rounds.h"

namespace pulsegate {

class Connection;

/// Connections of one shard that wait for a service that only a few of them get in each round of
/// the event loop. If thousands wait at once, other connections are served in between. If addresses
/// take turns, one address with thousands of connections does not delay the others.
class TurnQueue {
public:
    enum class Turns : std::uint8_t { by_address, in_order };

    /// Returns false if there was nothing to do: then the next connection is served in the same
    /// round.
    using Serve = bool (Connection::*)();

    TurnQueue(Rounds& rounds, std::size_t a_turn, Turns turns, Serve serve);
    ~TurnQueue();

    void add(Connection& connection);
    void serve_all();
    bool is_empty() const { return order_.empty(); }

private:
    void expect();
    void post();
    bool serve_first();

    Rounds& rounds_;
    const std::size_t a_turn_;
    const Turns turns_;
    const Serve serve_;
    boost::unordered_flat_map<Address, std::list<boost::intrusive_ptr<Connection>>> waiting_;
    std::list<Address> order_;  ///< the addresses of `waiting_`; the first one is served next
    bool posted_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
