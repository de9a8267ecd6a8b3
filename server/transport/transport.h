#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/counters.h"
#include "server/base/files/unique_fd.h"
#include "server/base/owner_thread.h"
#include "server/loop/rounds.h"
#include "server/session/terms/eviction.h"
#include "server/session/terms/link.h"
#include "server/transport/connections/connection_context.h"
#include "server/transport/connections/connection_owner.h"
#include "server/transport/connections/handoff.h"
#include "server/transport/handshakes/connection_extras.h"
#include "wheel/wheel.h"

namespace pulsegate {

class Connection;

/// The connections of one shard, and the objects that they share. It belongs to the shard's thread,
/// and its end ends all its connections. It knows nothing about logins: the owner gets each
/// CONNECT, and decides about the connection.
class Transport {
public:
    Transport(Rounds& rounds, const TransportSettings& settings, ConnectionCounts counts,
              Counters& counters, Tracer& tracer, ConnectionOwner& owner);
    ~Transport();

    /// Applies other limits from now on, to existing connections too.
    void use(const TransportSettings& settings) {
        thread_.assert_here();
        context_.settings = settings;
    }
    /// Listeners have the same numbers on all shards. Call it before the shards run.
    void name_listener(std::uint16_t number, std::string name);

    /// Takes a new, non-blocking connection. Its peer may be a proxy.
    void accept(UniqueFd socket, std::unique_ptr<ConnectionExtras> extras, const Address& peer,
                std::uint16_t listener);

    /// Takes a connection that another transport released after its CONNECT. It is held until
    /// `Connection::go_on`. Returns null if that failed.
    boost::intrusive_ptr<Connection> adopt(Handoff handoff);

    /// Takes the connection of a client that has its socket on another node. It is held until
    /// `Connection::go_on`. `listener` is the other node's, as a URL.
    boost::intrusive_ptr<Connection> adopt(std::unique_ptr<Channel> channel,
                                           const boost::asio::ip::tcp::endpoint& client,
                                           const std::string& listener, Version version);

    /// Continues a connection that another process has described. Returns null if that is not
    /// possible.
    boost::intrusive_ptr<Connection> adopt(UniqueFd socket, const ConnectionRecord& record);

    /// From now on connections do not read, or do nothing.
    void rest(Rest rest) { context_.rest = rest; }
    /// Is there no connection that waits to end, or to write for the first time?
    bool is_quiet() const { return context_.lost.is_empty() && context_.flush_list.is_empty(); }
    /// At rest: handles the last packets of peers that have ended their streams, because another
    /// process would not learn of the end. Returns false if there were any.
    bool finish_ended() { return context_.parked.finish_ended(); }
    /// The connections continue after a rest of this length.
    void wake(Millis rest);
    /// Calls `visit(Connection&)` for each connection. `visit` must not end any of them.
    void visit(const std::function<void(Connection&)>& visit);

    /// The waits for clients of lost edges end that much later.
    void postpone(Tick ticks) { context_.postponed += ticks; }
    /// By how many ticks they were postponed so far.
    Tick postponed() const { return context_.postponed; }

    /// Ends the connections that have been silent too long; call it at every tick.
    void expire_due();

    void end_turn() {
        thread_.assert_here();
        context_.flush_list.flush();
    }

    /// Ends every connection.
    void end_all(const Ending& ending);
    /// How to treat clients with messages that are not answered yet.
    enum class Unanswered : std::uint8_t { stay, leave };
    /// Ends up to `most` connections of clients that are logged in, unless their sockets are on
    /// other nodes.
    void ask_to_leave(std::size_t most, const Ending& ending, Unanswered unanswered);
    /// Ends some connections of clients that are logged in from this address. Before that, calls
    /// `visit` for each session.
    Evicted end_some(const Address& address, const Ending& ending,
                     const std::function<void(Session&)>& visit);

    const Wheel& wheel() const { return context_.wheel; }
    std::size_t connections() const { return context_.connections; }
    /// The same, but not those with their sockets on other nodes.
    std::size_t connections_here() const { return context_.connections - context_.elsewhere; }
    /// The URL of each listener, and the number of its connections.
    std::vector<std::pair<std::string, std::size_t>> connections_by_listener() const;
    /// The number of bytes that sockets have not accepted yet.
    std::size_t backlog() const { return context_.backlog.get(); }

private:
    void expire(Tick now);
    boost::intrusive_ptr<Connection> take(Handoff handoff);
    std::uint16_t number_of(const std::string& listener);

    ConnectionContext context_;
    bool expiring_ = false;  ///< more connections are due, and a turn for them is posted
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
