#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <deque>

#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// Reads queued messages that have their bodies only in the store, before they are sent to their
/// clients. It reads one page per client, and for a limited number of clients at a time. It belongs
/// to the shard's thread.
class BodyReader {
public:
    BodyReader(StoreLink& store, Journal& journal) : store_(store), journal_(journal) {}

    /// Asks for the next messages to the session's client, if this read is not under way yet. A
    /// MessagesRead follows.
    void read(Session& session);

    /// Returns the session; null if it no longer waits, or if the read must be repeated.
    Session* receive(const MessagesRead& read);

    /// The session's connection has ended.
    void forget(const Session& session) { readings_.erase(session.id); }

    /// Is no read in progress?
    bool is_idle() const { return under_way_ == 0; }

    /// Call it once a second: repeats the reads that the store has refused.
    void tick();

private:
    struct Reading {
        Session* session;
        bool is_asked_for = false;
        bool is_waiting = false;  ///< it waits for its turn, because too many reads are under way
    };

    void wait(SessionId id, Reading& reading);
    void ask(SessionId id, Reading& reading);
    void ask_next();

    StoreLink& store_;
    Journal& journal_;
    boost::unordered_flat_map<SessionId, Reading> readings_;
    std::deque<SessionId> waiting_;  ///< each session once; forgotten sessions may still be in it
    std::size_t under_way_ = 0;
};

}  // namespace pulsegate
