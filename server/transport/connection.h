#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "protocol/bytes.h"
#include "protocol/packet.h"
#include "server/session/link.h"
#include "server/transport/transport.h"
#include "wheel/wheel.h"

namespace pulsegate {

/// One client's TCP connection: cuts its bytes into packets, moves itself on the wheel with each,
/// and sends. At rest it owns no buffer: it waits for its socket to become readable and reads into
/// the buffer that all connections of the shard share.
///
/// It lives as long as someone refers to it: the transport until it is closed, and each operation
/// that Asio has under way.
class Connection final : public Wheel::Node, public Link {
public:
    Connection(Transport& transport, int socket);

    /// Begins to read, with what was read elsewhere first.
    void start(std::string_view unread);

    /// Gives up the socket, with all input from the packet at hand on; for use within `on_packet`.
    Arrival release();

    void send(std::string_view packets) override;
    void end(const Ending& ending) override;
    std::size_t backlog() const override { return out_ ? out_->size() - sent_ : 0; }
    void tell_when_drained() override;
    Millis last_packet() const override { return last_packet_; }
    void set_limit(Millis limit) override { limit_ = static_cast<std::uint32_t>(limit); }

    /// Address and port of the peer, for the log.
    std::string peer() const;

private:
    friend class Transport;
    friend void intrusive_ptr_add_ref(Connection* connection) { ++connection->references_; }
    friend void intrusive_ptr_release(Connection* connection) {
        if (--connection->references_ == 0) delete connection;
    }

    using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp,
                                                    boost::asio::io_context::executor_type>;

    enum class State : std::uint8_t {
        login,      ///< waits for CONNECT
        open,       ///< logged in
        ending,     ///< to be ended at the end of the turn
        lingering,  ///< said goodbye; reads on so that the goodbye is not lost with a reset
        closed,
    };

    ~Connection() = default;

    void wait_readable();
    void wait_writable();
    void receive(Millis now);
    void consume(Bytes input, Millis now);
    bool handle(Bytes packet, Millis now);
    void answer_ping(Millis now);
    void refuse_packet(Bytes packet, Reason reason, const char* cause);
    void settle();
    void flush();
    void finish();
    void say_goodbye(const Ending& ending);
    void close();
    bool reads() const { return state_ == State::login || state_ == State::open; }

    Transport& transport_;
    Socket socket_;
    std::unique_ptr<Buffer> partial_;  ///< the beginning of a packet
    std::unique_ptr<Buffer> out_;      ///< what the socket has not taken yet
    Millis last_packet_ = 0;
    const char* why_ = nullptr;  ///< with `cause_` and `reason_` the ending, once there is one
    std::uint32_t limit_ = 0;
    std::uint32_t sent_ = 0;  ///< bytes of `out_` that the socket has taken
    std::uint16_t references_ = 0;
    State state_ = State::login;
    Version version_ = Version::v3_1_1;
    Cause cause_{};
    Reason reason_{};
    bool dirty_ = false;
    bool writing_ = false;  ///< waits for the socket to take more
    bool tell_drained_ = false;
};

static_assert(sizeof(Connection) <= 192);

}  // namespace pulsegate
