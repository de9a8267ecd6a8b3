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

/// The senders of the messages in one full queue. It finds the oldest message of the sender with
/// the most bytes at once, however many messages and senders there are. It takes 8 bytes for each
/// message and about 150 for each sender. A queue that was never full has no QueueShares.
class QueueShares {
public:
    using Sender = SenderShares::Sender;

    explicit QueueShares(Queue& queue) {
        for (auto each = queue.begin(); each != queue.end(); ++each) add(each);
    }

    /// Adds the last message in the queue.
    void add(Queue::iterator message);
    /// The message leaves the queue. This is fast for the oldest message of a sender.
    void remove(Queue::iterator message);
    /// The sender's last message in the queue moves to its place in the order of stamps.
    void order_last(Sender sender);

    /// The oldest message of the sender with the most bytes, if `sender` has this many bytes more.
    /// If two senders have equally many, the one with the greater fingerprint counts. Nothing if
    /// the result is `sender`, and `sender` has no message.
    std::optional<Queue::iterator> surplus(Sender sender, std::size_t more) const;

private:
    struct Share {
        std::size_t bytes = 0;
        std::vector<Queue::iterator> messages{};  ///< the oldest first
        std::size_t gone = 0;                     ///< how many of the first ones are no longer in
                                                  ///< the queue
    };

    void count(Sender sender, Share& share, std::size_t bytes);

    boost::unordered_flat_map<Sender, Share> shares_;
    boost::container::set<std::pair<std::size_t, Sender>> by_bytes_;
};

}  // namespace pulsegate
