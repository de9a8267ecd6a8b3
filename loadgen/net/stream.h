#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "loadgen/net/address.h"
#include "loadgen/net/descriptor.h"
#include "loadgen/net/half_open.h"
#include "loadgen/net/loop.h"
#include "loadgen/time.h"
#include "protocol/bytes.h"
#include "protocol/websocket.h"

namespace pulsegate::load {

class TlsContext;

/// Why a connection ended, if its owner did not end it.
enum class EndedBy : std::uint8_t {
    refusal,     ///< the answer to the WebSocket's request; a CONNACK with an error
    disconnect,  ///< DISCONNECT of the server
    close,       ///< the server closed in order: TCP FIN, the close of TLS or of a WebSocket
    failure,     ///< reset, timeout or refusal of TCP, a failed handshake of TLS
    violation,   ///< the server broke a protocol rule, so we closed
    local,       ///< this machine failed: out of ports, out of files, out of memory
};

/// Bytes and packets of all connections of a loop. They only grow.
struct Traffic {
    std::uint64_t bytes_sent = 0;  ///< bytes of TCP
    std::uint64_t bytes_received = 0;
    std::uint64_t packets_sent = 0;
    std::uint64_t packets_received = 0;
};

/// The objects that all streams of a loop share. It outlives them.
class StreamHost {
public:
    StreamHost(Loop& the_loop, std::uint64_t seed)
        : loop(the_loop), half_open(the_loop), random_(seed) {}

    /// For masks and nonces. RFC 6455 requires that browsers keep them secret, but this is not
    /// needed here.
    std::uint64_t random();

    Loop& loop;
    Traffic traffic;
    HalfOpenSockets half_open;
    Buffer frame;   ///< for one WebSocket frame
    Buffer cipher;  ///< for records of TLS

private:
    std::uint64_t random_;
};

/// The destination and the layers of a stream.
struct Route {
    const SocketAddress& target;
    const SocketAddress* source = nullptr;  ///< nullptr: the kernel chooses
    const TlsContext* tls = nullptr;        ///< nullptr: plain
    bool websocket = false;
    const std::string& host;  ///< the server's name in TLS and HTTP
    std::uint16_t port;
    const std::string& path;  ///< of a WebSocket
    int receive_buffer = 0;   ///< SO_RCVBUF; 0: the system's
};

/// A non-blocking connection: TCP, with optional TLS and an optional WebSocket. It keeps data that
/// the socket does not accept, and data that its owner can't use yet. At rest it owns no buffer.
class Stream final : Loop::Handler {
public:
    /// Gets the stream's events from the event loop, never from within a call of the stream.
    class Owner {
    public:
        virtual void stream_open(Time now) = 0;
        /// Returns how many of the bytes are processed. The others come again, with more bytes
        /// after them. It may do anything with the stream except destroy it.
        virtual std::size_t stream_bytes(Bytes bytes, Time now) = 0;
        /// The stream is closed. It is not called after the owner's own actions.
        virtual void stream_ended(EndedBy by, std::string_view cause, Time now) = 0;

    protected:
        ~Owner() = default;
    };

    /// The maximum number of bytes that an owner may leave unprocessed.
    static constexpr std::size_t most_kept = Loop::scratch_size / 2;
    /// If more bytes than this wait for the socket, reading stops, too.
    static constexpr std::size_t most_unsent = 1024 * 1024;
    static constexpr std::uint32_t unlimited = UINT32_MAX;

    Stream(StreamHost& host, Owner& owner);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// The stream must be closed. Errors are reported later, with `stream_ended`.
    void connect(const Route& route);

    /// While open.
    void send(std::string_view bytes);

    /// Reads at most this many more bytes from the socket; zero: none until the next call.
    void read_at_most(std::uint32_t bytes);

    /// Closes in order: sends the waiting bytes and nothing more. The socket is closed when the
    /// server has closed it, or by `connect`, `close` and `reset`.
    void finish();
    void close();
    void reset();  ///< with a TCP reset: the port is free at once

    /// Stops reading and writing. `stream_ended` is called when the server closes.
    void freeze();
    /// Closes the stream, but leaves its socket open, to be closed when the server closes it.
    void leave_half_open();

    /// The time of the last send, right before and right after the call.
    Time before_send() const { return before_send_; }
    Time after_send() const { return after_send_; }
    Time tcp_connected_at() const { return tcp_connected_at_; }

    std::size_t unsent() const { return unsent_.size(); }

private:
    enum class State : std::uint8_t {
        closed,
        connecting,
        securing,   // TLS
        upgrading,  // WebSocket
        open,
        finishing,
        frozen,
    };
    struct Layers;

    void ready(std::uint32_t events) override;
    void watch_the_end(std::uint32_t events);
    void finish_sending(std::uint32_t events);

    bool open_socket(const Route& route);
    void add_layers(const Route& route);
    void tcp_connected();
    void transport_ready(Time now);
    void opened(Time now);
    bool secured() const;
    bool reading() const;

    void read(bool to_the_end);
    std::span<std::uint8_t> room() const;
    void arrived(Bytes bytes, Time now);
    void decrypt(Bytes cipher, Time now);
    void take(std::size_t size, Time now);
    void upgrade(std::size_t size, Time now);
    void unframe(std::size_t plain, std::size_t size, Time now);
    void end_websocket(std::size_t plain, const Unframed& last, Time now);
    bool deliver(std::size_t size, Bytes frames, Time now);
    void keep(Bytes plain, Bytes frames);

    void send_frame(Opcode opcode, std::string_view payload);
    void send_secured(std::string_view bytes);
    void transmit(std::string_view bytes);
    void send_rest();
    std::size_t push(std::string_view bytes);

    void end_by_error(int error, Time now);
    void end(EndedBy by, const std::string& cause, Time now);

    StreamHost& host_;
    Owner& owner_;
    Descriptor socket_;
    State state_ = State::closed;
    bool rest_waits_ = false;          // input waits in the socket because of `most_unsent`
    int error_ = 0;                    // error of the last connect or send that is not reported yet
    std::uint32_t connection_ = 0;     // counts, to notice that the owner closed it
    std::uint32_t quota_ = unlimited;  // bytes that may be read
    Time before_send_{};
    Time after_send_{};
    Time tcp_connected_at_{};
    std::string unsent_;
    std::string kept_;  // bytes that the owner can't use yet, then the beginning of a frame
    std::unique_ptr<Layers> layers_;
};

static_assert(sizeof(Stream) <= 176);

}  // namespace pulsegate::load
