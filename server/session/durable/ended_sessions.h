#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <string_view>

#include "server/session/durable/journal.h"

namespace pulsegate {

/// The clients of one shard with sessions that have ended, although the disk may not know it yet.
/// After a crash such a session would come back, with packet identifiers that are in use. The size
/// is bounded by the content of the journal. It belongs to the shard's thread.
class EndedSessions {
public:
    explicit EndedSessions(const Journal& journal) : journal_(journal) {}

    /// The EndOwner of the client with this fingerprint was added to the journal.
    void add(std::uint64_t client);
    /// Has a session of this client ended, and is its end not committed yet?
    bool contains(std::string_view user, std::string_view client);

private:
    void forget_committed();

    struct End {
        std::uint64_t unit;
        std::uint64_t client;  ///< its fingerprint
    };

    const Journal& journal_;
    std::deque<End> ends_;
    boost::unordered_flat_map<std::uint64_t, std::uint64_t> latest_;  ///< unit by client
};

}  // namespace pulsegate
