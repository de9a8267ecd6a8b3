#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "server/admission/admission.h"
#include "server/admission/visitors.h"
#include "server/clock.h"
#include "server/counters.h"
#include "server/session/link.h"
#include "server/transport/turn_queue.h"
#include "wheel/wheel.h"

namespace pulsegate {

class Connection;

/// The work of one turn, in messages to one client; then others get theirs.
inline constexpr std::uint64_t work_a_turn = 16'384;

/// What the connections of a shard tell the shard.
class ConnectionOwner {
public:
    /// A complete packet; the first is a CONNECT.
    virtual void on_packet(Connection& connection, const Packet& packet, Millis now) = 0;
    virtual void on_drained(Connection& connection) = 0;
    /// It sends too fast, for the first time, and is read more slowly from now on.
    virtual void on_slowed(Connection& connection) = 0;
    virtual void on_end(Connection& connection, const Ending& ending, Millis now) = 0;

    /// A measure of the work done since the beginning; a message to one client is one.
    virtual std::uint64_t work() const = 0;

    /// Do others lag so far behind what this shard sends them that it should read no more?
    virtual bool congested() = 0;

protected:
    ~ConnectionOwner() = default;
};

struct TransportSettings {
    std::size_t max_packet_size;
    std::size_t output_budget;
    std::size_t total_output_budget;  ///< of all connections here
    Millis login_timeout;
    double message_time;  ///< ns that each message takes, of one connection; 0: none
    double byte_time;
    Millis websocket_ping;  ///< 0: none
};

/// Where a connection comes from, and what its address may do.
struct Visit {
    Address address{};  ///< unknown as long as a proxy has not said it
    Visitors::Standing standing = Visitors::Standing::welcome;
};

struct Wrapping;

/// A socket on its way to the shard where its user is at home, with what wraps MQTT on it, and the
/// bytes of MQTT that were read and not yet understood.
struct Arrival {
    Arrival(int socket, std::unique_ptr<Wrapping> wrapping, Visit visit, std::string unread = {});
    Arrival(Arrival&&) noexcept;
    ~Arrival();

    int socket;
    std::unique_ptr<Wrapping> wrapping;  ///< null for plain MQTT
    Visit visit;
    std::string unread;
};

/// What the connections of one shard share: the wheel, the buffer they all read into, buffers to
/// send from, and the turn. A turn is what one event brings about; at its end all that was sent
/// leaves, with one write for each connection.
class Transport {
public:
    Transport(boost::asio::io_context& io, const TransportSettings& settings, Admission& admission,
              Visitors& visitors, Counters& counters, ConnectionOwner& owner);
    ~Transport();

    /// Takes a newcomer: a connected, non-blocking socket, whose peer may be a proxy.
    void accept(int socket, std::unique_ptr<Wrapping> wrapping, const Address& peer);

    /// Takes a connection that another transport released.
    void adopt(Arrival arrival);

    /// Ends who has been silent too long; call it at every tick.
    void expire_due();

    void end_turn();

    /// Ends every connection.
    void end_all(const Ending& ending);

    const Wheel& wheel() const { return wheel_; }
    std::size_t connections() const { return connections_; }
    /// Bytes that sockets have not taken yet.
    std::size_t backlog() const { return backlog_; }

private:
    friend class Connection;

    template <class Visit>
    void hand_out_all(Visit visit);
    void last_look(Connection& connection);

    /// While packets of this connection are handled: it flushes itself, and its work is counted.
    void begin_work(const Connection& connection);
    void end_work() { current_ = nullptr; }

    /// Has the packet at hand been more than enough for one turn?
    bool overworked();
    void park(Connection& connection, Millis until);
    void wait_for_parked();
    void resume_parked();

    void mark_dirty(Connection& connection);
    std::unique_ptr<Buffer> take_buffer();
    void give_back(std::unique_ptr<Buffer> buffer);

    boost::asio::io_context& io_;
    const TransportSettings settings_;
    Admission& admission_;
    Visitors& visitors_;
    Counters& counters_;
    ConnectionOwner& owner_;

    Wheel wheel_;
    std::size_t connections_ = 0;
    std::size_t backlog_ = 0;
    std::vector<std::uint8_t> received_;   ///< the shared read buffer
    Bytes unread_;                         ///< from the packet at hand to the end of the input
    const Connection* current_ = nullptr;  ///< whose input is being read: it flushes itself
    std::vector<boost::intrusive_ptr<Connection>> dirty_;  ///< to be flushed at the end of the turn
    bool turn_end_posted_ = false;
    bool expiring_ = false;            ///< more are due, and a turn for them is posted
    std::uint64_t work_began_at_ = 0;  ///< the owner's work before that at hand
    std::multimap<Millis, boost::intrusive_ptr<Connection>> parked_;  ///< by when they go on
    boost::asio::steady_timer parking_;
    TurnQueue newcomers_;   ///< that have said something, and are not in yet
    TurnQueue handshakes_;  ///< TLS handshakes
    TurnQueue lost_;        ///< that have broken, and are to be ended
    std::vector<std::unique_ptr<Buffer>> spare_;
};

}  // namespace pulsegate
