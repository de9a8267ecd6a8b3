#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/message/message.h"

namespace pulsegate {

/// The share of each sender in a queue that is too long. The sender with the largest share loses
/// messages first, so that no sender can push out the messages of others. For a queue that is just
/// full, QueueShares is faster.
class SenderShares {
public:
    /// Half of a user's fingerprint. Two users with the same value share one account, but no user
    /// can choose the other one.
    using Sender = std::uint32_t;
    static Sender sender(const Message& message) { return static_cast<Sender>(message.sender); }

    void add(Sender sender, std::size_t bytes) { bytes_[sender] += bytes; }

    void remove(Sender sender, std::size_t bytes) {
        const auto found = bytes_.find(sender);
        if ((found->second -= bytes) == 0) bytes_.erase(found);
    }

    /// The part of its share that each sender may keep, so that all together have at most `most`
    /// bytes.
    std::size_t level(std::size_t most) const {
        std::vector<std::size_t> shares;
        for (const auto& [each, bytes] : bytes_) shares.push_back(bytes);
        std::ranges::sort(shares);
        std::size_t left = shares.size();
        for (const std::size_t share : shares) {
            if (share > most / left) return most / left;
            most -= share;
            --left;
        }
        return most;
    }

    std::size_t share(Sender sender) const {
        const auto found = bytes_.find(sender);
        return found == bytes_.end() ? 0 : found->second;
    }

private:
    boost::unordered_flat_map<Sender, std::size_t> bytes_;
};

}  // namespace pulsegate
