#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstddef>
#include <vector>

#include "server/base/owner_thread.h"
#include "server/loop/rounds.h"

namespace pulsegate {

class Connection;

/// The connections of one shard that have something to write or are to end. A turn is what one
/// event brings about; at its end each of them gets one write for all that was sent to it.
class FlushList {
public:
    explicit FlushList(Rounds& rounds);
    ~FlushList();

    /// Until the end of the turn, which is posted if nobody calls `flush` before.
    void add(Connection& connection);

    /// The turn ends. In one round of the event loop it writes to so many at most, however often it
    /// is called; the rest is left to further rounds.
    void flush();
    bool is_empty() const { return connections_.empty(); }

private:
    void expect();

    Rounds& rounds_;
    std::vector<boost::intrusive_ptr<Connection>> connections_;
    std::size_t next_ = 0;  ///< those before it have been flushed
    std::size_t left_;      ///< writes of this round
    bool posted_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
