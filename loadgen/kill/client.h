#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "loadgen/kill/scene.h"
#include "loadgen/time.h"
#include "protocol/encode.h"
#include "protocol/packet.h"

namespace pulsegate::kill {

/// One MQTT client, which reconnects soon as long as it wants to be connected. Derived classes
/// decide what it does with its connection.
class Client {
public:
    enum class Session : std::uint8_t { kept, clean };

    /// `keepalive`: the broker waits one and a half times this long for it.
    Client(Scene& scene, std::string id, Version version, Session session,
           std::chrono::seconds keepalive = std::chrono::seconds(30));
    virtual ~Client() = default;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Called every few milliseconds.
    void tick(Time now);

    bool online() const { return stage_ == Stage::online; }
    bool offline() const { return stage_ == Stage::offline; }
    /// Why the broker refused it, if it did.
    const std::string& refusal() const { return refusal_; }

protected:
    enum class Ending : std::uint8_t { disconnect, close, reset };

    void connect_as(std::string id) { id_ = std::move(id); }
    void want_connection(bool wanted) { wanted_ = wanted; }
    void end_connection(Ending ending);

    /// Sends the packet if there is a connection.
    template <class Packet>
    void send(const Packet& packet) {
        if (stage_ == Stage::offline || stage_ == Stage::connecting) return;
        if constexpr (std::is_same_v<Packet, Connect> || std::is_same_v<Packet, Pingreq>)
            encode(packet, to_send_);
        else
            encode(packet, version_, to_send_);
        write();
    }

    struct LastWill {
        std::string topic;
        std::string payload;
        std::uint32_t delay = 0;  ///< seconds; 5.0 only
    };

    Scene& scene() { return scene_; }
    Version version() const { return version_; }
    /// Its client id, and its user's name.
    const std::string& id() const { return id_; }
    /// When its last login was accepted.
    Time online_since() const { return online_since_; }
    /// The silence after which the broker considers it gone.
    Duration limit() const { return keepalive_ * 3 / 2; }

private:
    enum class Stage : std::uint8_t { offline, connecting, logging_in, online };

    virtual void on_login(const Connack& connack) = 0;
    virtual void on_packet(const Packet& packet) = 0;
    virtual void on_end() {}
    virtual void work(Time now) = 0;
    virtual std::optional<LastWill> will() { return {}; }

    void connect(Time now);
    void log_in();
    void read();
    void write();
    bool take_packets();
    void take(const Packet& packet);

    Scene& scene_;
    std::string id_;
    const Version version_;
    const Session session_;
    const Duration keepalive_;
    Stage stage_ = Stage::offline;
    bool wanted_ = false;
    bool writing_ = false;
    std::uint32_t generation_ = 0;  ///< handlers of an earlier connection must not touch this one
    boost::asio::ip::tcp::socket socket_;
    std::array<char, 16'384> input_;
    Buffer received_;
    Buffer to_send_;
    Buffer being_sent_;
    Time retry_at_{};
    Time give_up_at_{};
    Time last_write_{};
    Time online_since_{};
    std::string refusal_;
};

}  // namespace pulsegate::kill
