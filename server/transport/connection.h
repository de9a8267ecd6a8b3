#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "protocol/bytes.h"
#include "protocol/packet.h"
#include "server/limits.h"
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
    void start(std::unique_ptr<Wrapping> wrapping, Visit visit, std::string_view unread);

    /// How far the CONNECT at hand had come when it went on or was released.
    Application take_application();

    /// Gives up the socket, with all input from the packet at hand on; for use within `on_packet`.
    Arrival release(Application application);

    /// Leaves the CONNECT at hand and all that follows unread until `go_on`; for use within
    /// `on_packet`. The login timeout begins anew after `wait`, which it is made to wait.
    void hold(Millis wait);

    /// Is it there still, and waits for `go_on`?
    bool held();

    /// Goes on with the CONNECT that was held.
    void go_on(Application application);

    void send(std::string_view packets) override;
    void end(const Ending& ending) override;
    std::size_t backlog() const override { return out_ ? out_->size() - sent_ : 0; }
    void tell_when_drained() override;
    bool broken() const override { return state_ == State::lost; }
    Millis last_packet() const override { return last_packet_; }
    std::string peer() const override;
    void set_limit(Millis limit) override { limit_ = static_cast<std::uint32_t>(limit); }
    void set_largest_packet(std::uint32_t size) override { largest_packet_ = size; }

    const Visit& visit() const { return visit_; }

    /// The common name in the certificate that the client showed; nothing if it showed none.
    std::optional<std::string> certificate_name() const;
    /// Its address alone, of IPv4 as such on a listener for both; "" if it has gone.
    std::string address() const;

private:
    friend class Transport;
    friend class TurnQueue;
    friend void intrusive_ptr_add_ref(Connection* connection) { ++connection->references_; }
    friend void intrusive_ptr_release(Connection* connection) {
        if (--connection->references_ == 0) delete connection;
    }

    using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp,
                                                    boost::asio::io_context::executor_type>;

    enum class State : std::uint8_t {
        login,      ///< waits for CONNECT
        open,       ///< logged in
        lost,       ///< to be ended when there is time
        ending,     ///< to be ended at the end of the turn
        lingering,  ///< said goodbye; reads on so that the goodbye is not lost with a reset
        closed,
    };

    ~Connection();

    // connection_entry.cpp
    bool come_in();
    void enter(bool may_shake_hands);
    void wait_to_enter();
    bool shake_hands();
    void welcome();
    void turn_away();
    void keep(Application application);
    short departure();
    bool reset_by_peer();

    void wait_readable();
    void hear();
    void wait_writable();
    void resume();
    bool receive();
    void read_frames(std::span<std::uint8_t> input, Millis now);
    void consume(Bytes input, Millis now);
    bool handle(Bytes packet, Millis now);
    void answer_ping(Millis now);
    void refuse_packet(Bytes packet, Reason reason, const char* cause);
    Buffer& outgoing();
    void sent_something();
    void cut(Limit limit, const char* why);
    bool bury();
    void settle();
    void flush();
    void finish();
    void say_goodbye();
    void close();
    bool ping_websocket();
    Tick due_at(Millis now) const;
    bool too_fast(Bytes packet, Millis now);
    void count_backlog();
    bool reads() const { return state_ == State::login || state_ == State::open; }
    /// The peer's, or the client's if a proxy says it; nothing if it has gone.
    std::optional<boost::asio::ip::tcp::endpoint> endpoint() const;
    bool entering() const;
    bool websocket() const;
    SSL* tls() const;

    Transport& transport_;
    Socket socket_;
    std::unique_ptr<Wrapping> wrapping_;  ///< null for plain MQTT
    std::unique_ptr<Buffer> partial_;     ///< the beginning of a packet
    std::unique_ptr<Buffer> out_;         ///< what the socket has not taken yet
    Millis last_packet_ = 0;
    std::int64_t paid_until_ = 0;  ///< ns: when all its packets so far would have had their time
    std::uint32_t limit_ = 0;
    std::uint32_t sent_ = 0;            ///< bytes of `out_` that the socket has taken
    std::uint32_t counted_ = 0;         ///< of the backlog, in the transport's sum
    std::uint32_t largest_packet_ = 0;  ///< that the client takes; 0: no limit
    std::uint16_t references_ = 0;
    State state_ = State::login;
    std::uint8_t awaited_turns_ = 0;  ///< how many turn queues it is in
    Version version_ = Version::v3_1_1;
    bool dirty_ = false;
    bool listening_ = false;  ///< waits for its socket's input, or for the turn to read it
    bool writing_ = false;    ///< waits for the socket to take more
    bool tell_drained_ = false;
    bool parked_ = false;  ///< reads on when the shard has caught up, or its rate allows
    bool slowed_ = false;  ///< by its rate, some time
    bool queued_ = false;  ///< waits for something else than its socket's input
    // What follows is seldom looked at: each line of the cache counts with many clients.
    Visit visit_;
    Ending ending_{};  ///< from State::ending on
};

static_assert(sizeof(Connection) <= 200);

}  // namespace pulsegate
