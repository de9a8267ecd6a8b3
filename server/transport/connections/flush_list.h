#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstddef>
#include <vector>

#include "server/base/owner_thread.h"
#include "server/loop/rounds.h"

namespace pulsegate {

class Connection;

/// The connections of one shard that have output or must end. At the end of a round of the event
/// loop, each of them writes all its output at once.
class FlushList {
public:
    explicit FlushList(Rounds& rounds);
    ~FlushList();

    /// Adds the connection until the end of the round. The end is also posted, in case `flush` is
    /// not called.
    void add(Connection& connection);

    /// Writes now, as at the end of the round. The number of writes in one round is limited,
    /// however often this is called. The rest is left for further rounds.
    void flush();
    bool is_empty() const { return connections_.empty(); }

private:
    void expect();

    Rounds& rounds_;
    std::vector<boost::intrusive_ptr<Connection>> connections_;
    std::size_t next_ = 0;  ///< the connections before it are flushed
    std::size_t left_;      ///< writes of this round
    bool posted_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
