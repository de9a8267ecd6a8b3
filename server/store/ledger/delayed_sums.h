#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/hash.h"

namespace pulsegate {

struct DelayedTotal {
    std::size_t messages = 0;
    std::size_t bytes = 0;

    bool operator==(const DelayedTotal&) const = default;
    DelayedTotal& operator+=(const DelayedTotal& more) {
        messages += more.messages;
        bytes += more.bytes;
        return *this;
    }
    DelayedTotal& operator-=(const DelayedTotal& less) {
        messages -= less.messages;
        bytes -= less.bytes;
        return *this;
    }
};

class DelayedSums;

/// Room for messages that are not stored yet. They count from the moment when they are accepted, so
/// that two shards or requests can't use the same room. A claim ends when the messages are stored,
/// or when nobody holds them any more.
class DelayedClaim {
public:
    DelayedClaim(std::shared_ptr<DelayedSums> sums, std::string user, const DelayedTotal& room)
        : sums_(std::move(sums)), user_(std::move(user)), room_(room) {}
    ~DelayedClaim();
    DelayedClaim(const DelayedClaim&) = delete;
    DelayedClaim& operator=(const DelayedClaim&) = delete;

private:
    friend class DelayedSums;

    const std::shared_ptr<DelayedSums> sums_;
    const std::string user_;
    DelayedTotal room_;
};
using DelayedClaimRef = std::shared_ptr<DelayedClaim>;

/// How many delayed messages there are, of all and of each user, stored or claimed. Any thread may
/// use it.
class DelayedSums : public std::enable_shared_from_this<DelayedSums> {
public:
    /// Do the totals fit, including the requested room: the total of all users, and the user's own?
    using Fits = std::function<bool(const DelayedTotal& all, const DelayedTotal& own)>;
    /// Returns null if it does not fit.
    DelayedClaimRef claim(const std::string& user, const DelayedTotal& room, const Fits& fits);

    /// The total of stored messages.
    DelayedTotal stored(const std::optional<std::string>& user) const;

    struct Change {
        std::ptrdiff_t messages = 0;
        std::ptrdiff_t bytes = 0;
    };
    using Changes = boost::unordered_flat_map<std::string, Change, TextHash>;
    /// These changes are stored, so their claims end.
    void apply(const Changes& changes, const std::vector<DelayedClaimRef>& claims);

private:
    friend class DelayedClaim;

    struct Sum {
        DelayedTotal stored{};
        DelayedTotal claimed{};
    };
    void release(DelayedClaim& claim);

    mutable std::mutex mutex_;
    boost::unordered_flat_map<std::string, Sum, TextHash> users_;
    Sum all_;
};

}  // namespace pulsegate
