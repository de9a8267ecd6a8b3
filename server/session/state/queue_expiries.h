#pragma once

#include <boost/container/set.hpp>
#include <cstddef>
#include <functional>
#include <optional>

#include "server/session/state/queued_message.h"

namespace pulsegate {

/// The messages of one queue that have an expiry, in the order of their expiry. So expired messages
/// are found without examining the others. A message without an expiry is not in it, and costs
/// nothing.
class QueueExpiries {
public:
    /// The approximate bytes of an entry, including the allocator's overhead.
    static constexpr std::size_t entry_bytes = 48;

    void add(Queue::iterator message) { entries_.insert({message->expires(), message}); }
    void remove(Queue::iterator message) { entries_.erase({message->expires(), message}); }

    /// The message that expired first, if any has expired.
    std::optional<Queue::iterator> first_expired(Millis now) const {
        if (entries_.empty() || !has_expired(entries_.begin()->expires, now)) return std::nullopt;
        return entries_.begin()->message;
    }

    std::size_t size() const { return entries_.size(); }

private:
    struct Entry {
        Millis expires;
        Queue::iterator message;

        bool operator<(const Entry& other) const {
            if (expires != other.expires) return expires < other.expires;
            return std::less<>()(&*message, &*other.message);
        }
    };

    boost::container::set<Entry> entries_;
};

}  // namespace pulsegate
