#pragma once

#include <boost/container/set.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/session/state/queued_message.h"
#include "server/session/terms/sender_shares.h"

namespace pulsegate {

/// The senders of the messages in one full queue, so that the oldest of the sender with the most is
/// found at once, however many messages and senders are in it. It takes 8 bytes for each message
/// and about 150 for each sender; a queue that was never full has none.
class QueueShares {
public:
    using Sender = SenderShares::Sender;

    explicit QueueShares(Queue& queue) {
        for (auto each = queue.begin(); each != queue.end(); ++each) add(each);
    }

    /// It is the last in the queue.
    void add(Queue::iterator message);
    /// It leaves the queue. Fast for the oldest of its sender.
    void remove(Queue::iterator message);
    /// It is the last in the queue, and moves to its place in the order of stamps.
    void order_last(Sender sender);

    /// The oldest message of the sender with the most bytes, if `sender` has so many more: of two
    /// with as many, of the one with the greater fingerprint. Nothing if that is `sender`, and has
    /// none.
    std::optional<Queue::iterator> surplus(Sender sender, std::size_t more) const;

    std::size_t senders() const { return shares_.size(); }

private:
    struct Share {
        std::size_t bytes = 0;
        std::vector<Queue::iterator> messages{};  ///< the oldest first
        std::size_t gone = 0;                     ///< so many of the first are in the queue no more
    };

    void count(Sender sender, Share& share, std::size_t bytes);

    boost::unordered_flat_map<Sender, Share> shares_;
    boost::container::set<std::pair<std::size_t, Sender>> by_bytes_;
};

}  // namespace pulsegate
