#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "loadgen/time.h"
#include "protocol/decode.h"
#include "protocol/packet.h"
#include "wheel/wheel.h"

namespace pulsegate::load {

namespace asio = boost::asio;
using Socket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;

/// One MQTT client: its socket, the stage of its connection, and the time of its last send. It
/// sends and receives packets; Crowd and its derived classes decide when, and what the answers
/// mean. There may be 100,000 in a process, so at rest it owns no buffer.
class Client : public Wheel::Node {
public:
    enum class Stage : std::uint8_t {
        idle,
        connecting,
        logging_in,
        subscribing,
        talking,
        silent,
        waiting,  ///< for its next attempt
        gone,
    };

    Client(asio::io_context& io, std::uint32_t its_number, bool falls_silent)
        : number(its_number), will_fall_silent(falls_silent), socket_(io.get_executor()) {}

    /// Opens the socket, bound to `source` if there is one; `socket()` is then ready to connect.
    /// These functions return what went wrong, or an empty text.
    std::string open(const asio::ip::tcp::endpoint& target,
                     std::optional<asio::ip::address> source);
    std::string send(std::string_view packet);
    std::string send_rest();

    /// Reads once into `buffer`, which all clients share, and calls `visit(const Packet&)` for each
    /// packet in it, until the client is closed.
    template <class Visit>
    std::string receive(std::span<std::uint8_t> buffer, Version version, Visit&& visit);

    /// Closes the connection, and cancels all waits on the socket.
    void close();

    /// The same with a TCP reset, without DISCONNECT; the port is free at once.
    void vanish();

    bool away() const {
        return stage == Stage::idle || stage == Stage::waiting || stage == Stage::gone;
    }

    /// Counts the connections of the client: handlers of an earlier connection must not touch this
    /// one.
    std::uint16_t generation() const { return generation_; }

    Socket& socket() { return socket_; }
    bool has_rest() const { return !unsent_.empty(); }

    /// The last send, taken right before and right after the call. The server can't have had the
    /// packet before the first, and need not have had it before the second: a close is early
    /// measured from the first, and late measured from the second.
    Time before_send() const { return before_send_; }
    Time after_send() const { return after_send_; }

    std::uint16_t next_packet_id() { return ++packet_id_ == 0 ? ++packet_id_ : packet_id_; }

    const std::uint32_t number;
    std::uint32_t place = 0;  ///< index among the talkers; kept by the fleet
    Stage stage = Stage::idle;
    const bool will_fall_silent;
    bool starved = false;                        ///< the generator was too late to keep it alive
    bool overdue_ping = false;                   ///< its overdue ping has been counted
    bool refused = false;                        ///< by the CONNACK
    Reason disconnect_reason = Reason::success;  ///< of the refusal, or of the server's DISCONNECT
    std::uint8_t failed_attempts = 0;            ///< in the storm
    std::uint16_t keepalive = 0;                 ///< seconds, as agreed
    std::uint32_t unacknowledged = 0;            ///< QoS 1 messages
    Time due{};                                  ///< its next action
    Time falls_silent_at = Time::max();
    Time overslept_until{};  ///< end of the last silence past its limit; zero: none
    Time pinged_at{};        ///< the oldest ping without an answer; zero: none
    Time started_at{};       ///< when the connect began

private:
    void start_anew();
    std::string transmit(std::string_view bytes);
    std::string read(std::span<std::uint8_t> buffer, std::size_t& size);
    void keep(Bytes partial);

    Socket socket_;
    Time before_send_{};
    Time after_send_{};
    std::string unsent_;
    std::string partial_;  ///< beginning of an incomplete packet
    std::uint16_t packet_id_ = 0;
    std::uint16_t generation_ = 0;
};

static_assert(sizeof(Client) <= 256);

/// Bytes; larger than all packets that the generator causes.
constexpr std::size_t max_packet_size = 40'000;

template <class Visit>
std::string Client::receive(std::span<std::uint8_t> buffer, Version version, Visit&& visit) {
    std::size_t size = 0;
    if (auto trouble = read(buffer, size); !trouble.empty()) return trouble;

    Bytes rest(buffer.data(), size);
    while (!rest.empty()) {
        const Frame frame = next_frame(rest, max_packet_size);
        if (frame.status == Frame::Status::bad)
            return std::string("the server sent no MQTT: ") + frame.error.cause;
        if (frame.status == Frame::Status::incomplete) break;

        const Decoded decoded = decode(rest.first(frame.size), version, Sender::server);
        if (const auto* error = std::get_if<DecodeError>(&decoded))
            return std::string("the server sent a bad packet: ") + error->cause;
        visit(std::get<Packet>(decoded));
        if (away()) return {};
        rest = rest.subspan(frame.size);
    }
    keep(rest);
    return {};
}

}  // namespace pulsegate::load
