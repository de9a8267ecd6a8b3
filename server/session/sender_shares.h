#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/message.h"

namespace pulsegate {

/// How many bytes of a full queue are whose: the sender with the most loses first, so that nobody
/// can empty a queue of what others have put into it.
class SenderShares {
public:
    /// Half of a user's fingerprint: two users who share it have one share, and nobody can choose
    /// whose.
    using Sender = std::uint32_t;
    static Sender sender(const Message& message) { return static_cast<Sender>(message.sender); }

    void add(Sender sender, std::size_t bytes) { bytes_[sender] += bytes; }

    void remove(Sender sender, std::size_t bytes) {
        const auto found = bytes_.find(sender);
        if ((found->second -= bytes) == 0) bytes_.erase(found);
    }

    /// The sender with the most bytes, if `sender` has so many more. Of two with as many, the one
    /// with the greater fingerprint.
    Sender largest(Sender sender, std::size_t more) const {
        Sender largest = sender;
        std::size_t most = more + share(sender);
        for (const auto& [each, bytes] : bytes_) {
            if (each == sender || bytes < most || (bytes == most && each < largest)) continue;
            largest = each;
            most = bytes;
        }
        return largest;
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
    bool has(Sender sender) const { return bytes_.contains(sender); }
    std::size_t size() const { return bytes_.size(); }

private:
    boost::unordered_flat_map<Sender, std::size_t> bytes_;
};

}  // namespace pulsegate
