#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "protocol/bytes.h"
#include "protocol/packet.h"
#include "server/session/link.h"
#include "server/transport/transport.h"
#include "server/transport/wrapping.h"
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
    explicit Connection(Transport& transport);

    /// Takes a connected, non-blocking socket; on an error it stays the caller's.
    boost::system::error_code take(int socket);

    /// Begins to read, with what was read elsewhere first.
    void start(std::unique_ptr<Wrapping> wrapping, std::string_view unread);

    /// Gives up the socket, with all input from the packet at hand on, and the
    /// verdict on it; for use within `on_packet`.
    Arrival release(Verdict verdict);

    /// Leaves the CONNECT at hand and all that follows unread until `go_on`; for use within
    /// `on_packet`.
    void hold() { queued_ = true; }

    /// Goes on with the CONNECT that was held, and this verdict on it.
    void go_on(Verdict verdict);

    /// The verdict on the CONNECT at hand, once; nothing if none was asked for.
    std::optional<Verdict> take_verdict();

    void send(std::string_view packets) override;
    void end(const Ending& ending) override;
    std::size_t backlog() const override { return out_ ? out_->size() - sent_ : 0; }
    void tell_when_drained() override;
    Millis last_packet() const override { return last_packet_; }
    void set_limit(Millis limit) override { limit_ = static_cast<std::uint32_t>(limit); }
    void set_largest_packet(std::uint32_t size) override { largest_packet_ = size; }

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

    ~Connection();

    void wait_readable();
    void wait_writable();
    void resume();
    void enter(bool may_shake_hands);
    void shake_hands();
    void wait_to_enter();
    bool receive();
    void read_frames(std::span<std::uint8_t> input, Millis now);
    void consume(Bytes input, Millis now);
    bool handle(Bytes packet, Millis now);
    void answer_ping(Millis now);
    void refuse_packet(Bytes packet, Reason reason, const char* cause);
    Buffer& outgoing();
    void sent_something();
    void settle();
    void flush();
    void finish();
    void say_goodbye();
    void close();
    bool reads() const { return state_ == State::login || state_ == State::open; }
    bool entering() const;
    bool websocket() const;
    SSL* tls() const;

    Transport& transport_;
    Socket socket_;
    std::unique_ptr<Wrapping> wrapping_;  ///< null for plain MQTT
    std::unique_ptr<Buffer> partial_;     ///< the beginning of a packet
    std::unique_ptr<Buffer> out_;         ///< what the socket has not taken yet
    Millis last_packet_ = 0;
    Ending ending_{};  ///< from State::ending on
    std::uint32_t limit_ = 0;
    std::uint32_t sent_ = 0;            ///< bytes of `out_` that the socket has taken
    std::uint32_t largest_packet_ = 0;  ///< that the client takes; 0: no limit
    std::uint16_t references_ = 0;
    State state_ = State::login;
    Version version_ = Version::v3_1_1;
    bool dirty_ = false;
    bool writing_ = false;  ///< waits for the socket to take more
    bool tell_drained_ = false;
    bool parked_ = false;  ///< reads on when the shard has caught up
    bool queued_ = false;  ///< waits for something else than its socket's input
};

static_assert(sizeof(Connection) <= 192);

}  // namespace pulsegate
