#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>

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
        const auto found = bytes_.find(sender);
        std::size_t most = more + (found == bytes_.end() ? 0 : found->second);
        for (const auto& [each, bytes] : bytes_) {
            if (each == sender || bytes < most || (bytes == most && each < largest)) continue;
            largest = each;
            most = bytes;
        }
        return largest;
    }

    bool has(Sender sender) const { return bytes_.contains(sender); }
    std::size_t size() const { return bytes_.size(); }

private:
    boost::unordered_flat_map<Sender, std::size_t> bytes_;
};

}  // namespace pulsegate
