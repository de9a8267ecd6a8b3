#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <deque>

#include "server/session/durable/broker_host.h"
#include "server/session/durable/journal.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// Reads messages of queues that have their bodies only in the store, for clients that they are to
/// be sent to: a page for each client, and not for too many at a time. It belongs to the shard's
/// thread.
class BodyReader {
public:
    BodyReader(StoreLink& store, Journal& journal) : store_(store), journal_(journal) {}

    /// Asks for what the session's client is to be sent next, unless that is done already. A
    /// MessagesRead follows.
    void read(Session& session);

    /// Null: nobody waits for it, or it is to be asked for again.
    Session* receive(const MessagesRead& read);

    /// The session's connection has ended.
    void forget(const Session& session) { readings_.erase(session.id); }

    /// Is nothing read now?
    bool is_idle() const { return under_way_ == 0; }

    /// Once a second: asks again for what the store has refused.
    void tick();

private:
    struct Reading {
        Session* session;
        bool is_asked_for;
    };

    void ask(SessionId id, Reading& reading);
    void ask_next();

    StoreLink& store_;
    Journal& journal_;
    boost::unordered_flat_map<SessionId, Reading> readings_;
    std::deque<SessionId> waiting_;  ///< to be asked for when answers have come
    std::size_t under_way_ = 0;
};

}  // namespace pulsegate
