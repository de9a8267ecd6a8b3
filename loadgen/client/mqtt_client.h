#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/client/client_owner.h"
#include "loadgen/client/client_session.h"
#include "loadgen/client/profile.h"
#include "loadgen/net/loop.h"
#include "loadgen/net/stream.h"
#include "loadgen/time.h"
#include "protocol/encode.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// The objects that all clients of a loop share. It outlives them.
class ClientHost : public StreamHost {
public:
    ClientHost(Loop& the_loop, ClientOwner& the_owner, std::uint64_t seed = 1)
        : StreamHost(the_loop, seed), owner(the_owner) {}

    ClientOwner& owner;

private:
    friend class MqttClient;

    Buffer packet_;  // the packet that is being encoded
    // Answers to the packets that one client is reading are sent together.
    const MqttClient* reading_ = nullptr;
    Buffer answers_;
    SpareSessions spare_sessions_;
};

/// One MQTT client on an event loop: it logs in, subscribes, publishes at QoS 0 to 2, answers the
/// server's packets, and knows when it last sent. It makes no decisions: its owner says when to
/// connect, to ping, to publish, to fall silent, to leave, and to give up.
///
/// There may be 19,000 in a process, so it owns no buffer at rest. It has one method for each
/// action of a client, and for each question of its owner.
class MqttClient final : Stream::Owner {
public:
    MqttClient(ClientHost& host, const ClientProfile& profile, std::uint32_t number);
    ~MqttClient();

    // Connecting, from `away` or from `abandoned`; then the old socket also stays open.
    void connect(Time now);
    void open(Time now);                 ///< without CONNECT
    std::string connect_packet() const;  ///< as `connect` would send it

    // Once logged in.
    void subscribe(std::span<const SubscribeFilter> filters);  ///< one SUBSCRIBE; not empty
    /// Returns false, and sends nothing, if too much waits already. QoS 1 and 2 wait for their turn
    /// if the server's Receive Maximum is reached. `tag` is passed to `acknowledged` and
    /// `in_doubt`. The client chooses the packet identifier.
    bool publish(Publish message, std::uint64_t tag);
    /// PUBACK or PUBREC, if the owner acknowledges messages. Nothing is sent without a connection.
    void acknowledge(QoS qos, std::uint16_t packet_id);
    void ping(Time now);
    /// No longer expects an answer to the oldest ping. If the answer still comes, it is ignored, or
    /// counts for a later ping.
    void give_up_ping();

    // Going away. `ClientOwner::closed` is not called, `in_doubt` may be.
    void disconnect();  ///< DISCONNECT; the socket is closed when the server has closed it
    void close();       ///< without DISCONNECT, TCP FIN
    void reset();       ///< without DISCONNECT, TCP RST

    // Leaves partly: `closed` is called when the server closes the connection.
    void fall_silent();  ///< continues to read, sends nothing
    void abandon();      ///< neither reads nor sends: half open

    // For hostile clients, at any stage with a connection.
    void send_raw(std::string_view bytes);   ///< through TLS and in a WebSocket frame, if any
    void read_at_most(std::uint32_t bytes);  ///< from the socket, then nothing until it is called
                                             ///< again
    static constexpr std::uint32_t unlimited = Stream::unlimited;

    /// A larger packet ends the connection, as a fault of this machine.
    static constexpr std::size_t max_packet_size = 200 * 1024;

    Stage stage() const { return stage_; }
    const ClientProfile& profile() const { return profile_; }
    /// Agreed with the server; 0: none.
    std::uint16_t keepalive() const { return keepalive_; }
    /// How long the server keeps a session of 5.0 after this connection, in seconds.
    std::uint32_t session_expiry() const { return limits_.session_expiry; }
    /// How many messages of QoS 1 and 2 the server takes at a time.
    std::uint16_t receive_maximum() const { return limits_.receive_maximum; }
    /// Counts its connections: 1 since the first `connect`.
    std::uint32_t connections() const { return connections_; }

    // Times of this or the last connection; zero: never.
    Time connecting_since() const { return connecting_since_; }
    Time tcp_connected_at() const { return stream_.tcp_connected_at(); }
    /// The time of the last send, right before and right after the call. The server can't have
    /// received the packet before the first time, and need not have received it before the second.
    /// So an early close is measured from the first, and a late close from the second.
    Time before_send() const { return stream_.before_send(); }
    Time after_send() const { return stream_.after_send(); }

    std::size_t in_flight() const;  ///< sent at QoS 1 or 2, not acknowledged
    std::size_t waiting() const;    ///< for room in the server's Receive Maximum, or a connection
    /// Received at QoS 2 before this time, and still without a PUBREL.
    std::size_t unreleased(Time before) const;
    /// When the oldest unanswered ping was sent; zero: none.
    Time oldest_ping() const { return oldest_ping_; }
    bool gave_up_pings() const { return given_up_pings_ > 0; }  ///< on this connection

    const std::uint32_t number;

private:
    /// The limits that the server has declared (MQTT 5.0, section 3.2.2.3).
    struct Limits {
        std::uint32_t max_packet_size = UINT32_MAX;
        std::uint32_t session_expiry = UINT32_MAX;
        std::uint16_t receive_maximum = UINT16_MAX;
        QoS max_qos = QoS::exactly_once;
    };

    void stream_open(Time now) override;
    std::size_t stream_bytes(Bytes bytes, Time now) override;
    void stream_ended(EndedBy by, std::string_view cause, Time now) override;

    void start(Time now, bool with_login);
    bool logged_in() const { return stage_ == Stage::online || stage_ == Stage::subscribing; }
    bool reads() const;
    Time take_oldest_ping();
    bool answers() const { return logged_in() || stage_ == Stage::open; }
    ClientSession& session();
    void drop_empty_session();
    std::uint16_t next_packet_id();
    Reason obstacle(const Publish& message) const;

    template <class Packet>
    void send(const Packet& packet);
    void send_bytes(std::string_view bytes);
    void send_answers();
    void send_messages();

    bool read_packet(Bytes& rest, Time now);
    void on(const Connack& packet, Time now);
    void on(const Publish& packet, Time now);
    void on(const Puback& packet, Time now);
    void on(const Pubrec& packet, Time now);
    void on(const Pubrel& packet, Time now);
    void on(const Pubcomp& packet, Time now);
    void on(const Suback& packet, Time now);
    void on(const Pingresp& packet, Time now);
    void on(const Disconnect& packet, Time now);
    template <class Other>
    void on(const Other& packet, Time now);
    void agree(const Connack& packet);
    void receive_once(const Publish& packet, Time now);
    void settled(std::optional<Outflow::Message> message, const char* packet, std::uint16_t id,
                 Reason reason, Time now);
    void unexpected(std::string_view cause, Time now);

    void leave_connection();
    void doubt(const std::vector<Outflow::Message>& messages);
    void lose(EndedBy by, Reason reason, std::string_view cause, Time now);

    ClientHost& host_;
    const ClientProfile& profile_;
    Stream stream_;
    Stage stage_ = Stage::away;
    bool logs_in_ = true;
    bool raw_ = false;  // it has sent bytes of its owner, so any answer may be right
    std::uint16_t keepalive_ = 0;
    std::uint16_t last_packet_id_ = 0;
    std::uint16_t given_up_pings_ = 0;
    Limits limits_;
    std::uint32_t connections_ = 0;
    Time connecting_since_{};
    Time oldest_ping_{};             // time of the oldest unanswered ping; zero: none
    std::vector<Time> later_pings_;  // times of later unanswered pings, in order; usually none
    std::unique_ptr<ClientSession> session_;
};

static_assert(sizeof(MqttClient) <= 256);

template <class Packet>
void MqttClient::send(const Packet& packet) {
    host_.packet_.clear();
    encode(packet, profile_.version, host_.packet_);
    send_bytes(host_.packet_);
}

}  // namespace pulsegate::load
