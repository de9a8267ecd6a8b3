#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "protocol/bytes.h"
#include "protocol/packet.h"
#include "server/base/files/unique_fd.h"
#include "server/base/limit.h"
#include "server/loop/poller.h"
#include "server/session/terms/link.h"
#include "server/transport/connections/connection_context.h"
#include "server/transport/connections/handoff.h"
#include "server/transport/handshakes/connection_extras.h"
#include "server/upgrade/client_record.h"
#include "wheel/wheel.h"

namespace pulsegate {

/// Can another process continue a connection?
enum class Passing : std::uint8_t {
    passes,
    handshake,  ///< its handshake is not complete
    login,      ///< its client is not logged in
    tls,        ///< OpenSSL's object handles its TLS
    ends,
};

/// One client's TCP connection: it cuts its bytes into packets, moves itself on the wheel with each
/// packet, and sends. At rest it owns no buffer: when input has arrived, it reads the input into
/// the buffer that all connections of the shard share.
///
/// It owns its socket and belongs to one shard's thread. It lives as long as it is referenced: by
/// itself until it is closed, by the queues that it waits in, and by the login of its CONNECT.
///
/// It has more methods and members than a class should. Nine methods are the session's interface
/// (Link), and there is one for each queue and list of the ConnectionContext. Every byte of a
/// connection at rest counts, so its state is packed into this one object.
class Connection final : public Wheel::Node, public Link, Polled {
public:
    explicit Connection(ConnectionContext& context);

    /// Takes the socket and its state, and begins to read. Returns false, and takes nothing, if the
    /// kernel has no memory to watch the socket; `errno` has the reason.
    [[nodiscard]] bool take(Handoff& handoff);

    // For the owner, from `on_connect` on:

    /// Reads nothing after its CONNECT until `go_on`. The login timeout starts again after `wait`,
    /// the time for which the owner holds it.
    void hold(Millis wait);
    /// Does it still wait for `go_on`?
    bool held() const { return state_ == State::login && queued_; }
    /// Did the peer leave while the connection was held? A peer that only closed its side, and had
    /// sent more than the CONNECT, is still served.
    bool peer_gone();
    /// Its CONNECT, which has these bytes, was answered with success: continues to read, if it was
    /// held.
    void go_on(Bytes connect);
    /// Gives up the socket and the bytes after the CONNECT, and closes.
    Handoff release();

    // With the socket on another node, see channels/channel.h:

    Channel* channel() const;
    /// The link to the client's edge is gone. The client has its limit of silence to come back
    /// elsewhere; it may have sent something until `since`. `postponed` is Transport::postponed
    /// when the link ended.
    void lose_edge(Millis since, Tick postponed);
    /// The edge has answered how long the client has been silent.
    void hear_silence(Millis silence);

    // With the session on another node, see server/edge/:

    /// Like `go_on`, but `on_forwarded` gets the packets except PINGREQ.
    void go_on_forwarding(Millis limit, std::uint32_t largest_packet);
    bool forwards() const { return forwards_; }

    void send(std::string_view packets) override;
    void end(const Ending& ending) override;
    std::size_t backlog() const override { return out_ ? out_->size() - sent_ : 0; }
    void notify_when_drained() override;
    void connack_sent() override { context_.owner.on_connack(*this); }
    bool is_lost() const override { return state_ == State::lost; }
    bool is_cut_off() const override { return channel() && channel()->is_cut_off(); }
    bool has_lost_node() const override { return channel() && channel()->has_lost_edge(); }
    bool is_ending() const override { return state_ == State::ending; }
    Millis last_packet() const override { return last_packet_; }
    std::string peer() const override;
    std::string address() const override;
    const Address& origin_address() const override { return origin_.address; }
    std::string_view listener() const override;
    void set_limit(Millis limit) override { limit_ = static_cast<std::uint32_t>(limit); }
    Millis limit() const override { return limit_; }
    void set_largest_packet(std::uint32_t size) override { largest_packet_ = size; }

    const Origin& origin() const { return origin_; }
    /// The peer's endpoint, or the client's if a proxy states it; nothing if the peer is gone.
    std::optional<boost::asio::ip::tcp::endpoint> endpoint() const;
    int socket() const { return socket_.get(); }
    /// Tells the traces of its address about the new connection.
    void tell_arrival() const;

    /// The certificate that the client showed; nothing if it showed none.
    std::optional<ClientCertificate> certificate() const;

    // Called by the context's lists and queues, each in its turn:

    /// Its time on the wheel is up.
    void on_due();
    void resume();
    void end_turn();
    bool read_pending();
    bool shake_hands();
    bool teardown();

    /// Ends, as all connections do. A connection that is lost or ending already keeps its own
    /// ending.
    void shut_down(const Ending& ending);

    // For an upgrade, see connection_passage.cpp:

    /// Has the peer ended the stream, so that another process can't have it, while its last packets
    /// wait here?
    bool has_last_packets() const { return parked_ && state_ == State::open && has_ended(); }
    /// Handles these packets now, whatever its rate, and then the end.
    void finish_input();
    /// Can another process have it? If not, the result is the reason.
    Passing passing() const;
    /// Its state at `rested`, when the connections came to rest. The connection must be able to
    /// pass.
    ConnectionRecord describe(Millis rested) const;
    /// Like `take`, but continues the connection of another process. It reads when there is a
    /// session. Returns false if the record is damaged. Throws std::system_error if the kernel
    /// can't watch the socket.
    [[nodiscard]] bool adopt(Handoff& handoff, const ConnectionRecord& record);
    /// Continues after a rest of this length, which does not count as the client's silence.
    void wake(Millis rest);
    /// This process ends, and no other one has the connection: tells the client the reason. The
    /// session is not told.
    void say_end(const Ending& ending);

    void close();
    bool closed() const { return state_ == State::closed; }

private:
    friend void intrusive_ptr_add_ref(Connection* connection) { ++connection->references_; }
    friend void intrusive_ptr_release(Connection* connection) {
        if (--connection->references_ == 0) delete connection;
    }

    enum class State : std::uint8_t {
        login,      ///< waits for CONNECT
        open,       ///< logged in
        lost,       ///< to be ended when its turn comes
        ending,     ///< to be ended at the end of the round
        lingering,  ///< its DISCONNECT is sent; it continues to read, because a reset would destroy
                    ///< the DISCONNECT
        closed,
    };

    ~Connection();

    // connection_handshake.cpp
    void proceed_handshake(bool may_run_tls);
    void wait_to_proceed();
    void admit();
    void reject();
    bool lacks_memory();
    void open();
    short departure();
    bool reset_by_peer();

    void on_ready(Readiness ready) override;
    bool may_read() const;
    void read();
    void read_on();
    void wait_writable();
    void go_on_writing();
    bool receive();
    ssize_t read_socket(std::uint8_t* to, std::size_t room);
    void end_unreadable(ssize_t size);
    void read_frames(std::span<std::uint8_t> input, Millis now);
    void end_websocket();
    void consume(Bytes input, Millis now);
    bool handle(Bytes packet, Millis now);
    bool handle_connect(Bytes packet, Millis now);
    void answer_ping(Millis now);
    void refuse_packet(Bytes packet, Reason reason, const char* cause);
    void refuse_connect(Bytes connect, Reason reason, const char* cause);
    const char* cause_of_other_protocol(Bytes first_bytes) const;
    const char* cause_of_login_timeout() const;
    void trace_sent(std::string_view packets) const;
    Buffer& outgoing();
    void sent_something();
    void send_pong(Bytes body);
    void cut(Limit limit, const char* why);
    void mark_dirty();
    void settle();
    void flush();
    void finish();
    void send_reason();
    void send_disconnect();
    bool is_early();
    bool holds_packet() const;
    bool await_edge();
    Tick due_at(Millis now) const;
    bool too_fast(Bytes packet, Millis now);
    bool pay(double time, Limit limit, Millis now);
    void pay_for_framing(std::size_t bytes, Millis now);
    void charge(std::uint64_t work, Millis now);
    void charge_for_records(Millis now);
    void pause_for(std::uint64_t work, Millis now);
    void count_backlog();
    void keep_unfinished(std::unique_ptr<Buffer> bytes);
    void count_record(std::size_t bytes);
    void count_channel();
    void judge_unfinished();
    std::size_t unfinished() const;
    std::unique_ptr<Buffer> take_unfinished();
    bool reads() const { return state_ == State::login || state_ == State::open; }
    bool handshaking() const;
    bool has_ended() const;
    bool websocket() const;
    TlsSession* tls() const;
    SmallTls* small_tls() const;

    ConnectionContext& context_;
    std::unique_ptr<ConnectionExtras> extras_;  ///< null for plain MQTT
    std::unique_ptr<Buffer> partial_;           ///< the beginning of a packet
    std::unique_ptr<Buffer> out_;               ///< output that the socket has not accepted yet
    Millis last_packet_ = 0;
    std::int64_t paid_until_ = 0;  ///< ns: the time at which its rate allows further packets
    UniqueFd socket_;
    std::uint32_t limit_ = 0;
    std::uint32_t sent_ = 0;            ///< bytes of `out_` that the socket has accepted
    std::uint32_t counted_ = 0;         ///< its bytes in the sum of all backlogs
    std::uint32_t largest_packet_ = 0;  ///< the client's Maximum Packet Size; 0: no limit
    std::uint16_t references_ = 0;
    State state_ = State::login;
    std::uint8_t awaited_turns_ = 0;  ///< how many turn queues it waits in
    Version version_ = Version::v3_1_1;
    // Bits instead of bytes, because with bytes the connection would need the next size of the
    // allocator.
    bool dirty_ : 1 = false;
    bool unread_ : 1 = false;     ///< the socket may have more input
    bool drains_ : 1 = false;     ///< a short read does not mean that there is no more
    bool listening_ : 1 = false;  ///< waits for its turn to continue reading
    bool writing_ : 1 = false;    ///< waits until the socket accepts more
    bool notify_drained_ : 1 = false;
    bool parked_ : 1 = false;      ///< continues to read when its rate, the pause for its work and
                                   ///< the round's work allow it
    bool unanswered_ : 1 = false;  ///< parked, until its messages are answered
    bool slowed_ : 1 = false;      ///< was slowed by its rate before
    bool queued_ : 1 = false;      ///< waits for something other than its socket's input
    bool forwards_ : 1 = false;    ///< its session is on another node
    bool is_partial_counted_ : 1 = false;  ///< among unfinished packets
    // The following members are seldom used. They are last because with many clients cache lines
    // count.
    Origin origin_;
    Ending ending_{};  ///< from State::ending on
};

static_assert(sizeof(Connection) <= 168);

}  // namespace pulsegate
