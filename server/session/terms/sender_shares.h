#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/message/message.h"

namespace pulsegate {

/// How much of a queue that is too long each sender has: the sender with the most loses first, so
/// that nobody can empty a queue of what others have put into it. QueueShares knows more of one
/// that is just full.
class SenderShares {
public:
    /// Half of a user's fingerprint: two users with the same one have one share, and nobody can
    /// choose the other user.
    using Sender = std::uint32_t;
    static Sender sender(const Message& message) { return static_cast<Sender>(message.sender); }

    void add(Sender sender, std::size_t bytes) { bytes_[sender] += bytes; }

    void remove(Sender sender, std::size_t bytes) {
        const auto found = bytes_.find(sender);
        if ((found->second -= bytes) == 0) bytes_.erase(found);
    }

    /// What each may keep of its share, so that all together have no more than `most` bytes.
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
