#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "protocol/reason.h"
#include "server/config.h"

namespace pulsegate {

class Server;

/// What every CONNACK of MQTT 5.0 tells about a gateway with the usual settings, in packet
/// notation: 256 messages of QoS 2 at once, packets up to 256 KiB, 16 topic aliases.
inline constexpr const char* promises = "21 k256 27 w262144 22 k16";

/// A real gateway in this process, on loopback ports of its own: two shards, unless `adjust`
/// changes it. What it logs goes to `logged`.
class Gateway {
public:
    explicit Gateway(const std::function<void(Config&)>& adjust = {});
    ~Gateway();

    void stop();

    std::uint16_t mqtt_port() const { return mqtt_port_; }
    std::uint16_t http_port() const { return http_port_; }

    /// Has one of the last log lines this text in it?
    static bool logged(std::string_view text);

private:
    std::unique_ptr<Server> server_;
    std::uint16_t mqtt_port_ = 0;
    std::uint16_t http_port_ = 0;
};

/// A user's name that begins with `stem` and is at home on that one of two shards.
std::string at_home(unsigned shard, std::string_view stem);

/// One client's raw TCP connection, which blocks, but not for ever. What does not come as expected
/// ends the test.
class Conversation {
public:
    explicit Conversation(const Gateway& gateway) : Conversation(gateway.mqtt_port()) {}
    explicit Conversation(std::uint16_t port, int receive_buffer = 0);
    Conversation(Conversation&& other) noexcept;
    ~Conversation();

    /// Bytes in packet notation (see wire.h).
    Conversation& send(std::string_view notation);
    Conversation& send_bytes(std::string_view bytes);

    /// Reads just as many bytes as these, and they must be these.
    Conversation& expect(std::string_view notation);

    /// Nothing more comes, and the gateway closes.
    Conversation& expect_close();
    /// The same, after a DISCONNECT with this reason code, which has a reason string.
    Conversation& expect_close(Reason reason);

    /// Whatever was sent to it has arrived, for a PINGREQ is answered and nothing else came before.
    Conversation& expect_nothing();

    /// CONNECT with a clean session and CONNACK. The client id is the user too.
    Conversation& login(std::string_view client, Version version = Version::v3_1_1,
                        std::uint16_t keepalive = 10);

    /// The bytes of the next packet.
    std::string packet();

    /// Everything up to the close.
    std::string rest();

    void close();
    /// Closes with a reset.
    void reset();
    /// Sends a FIN and stays to read.
    void close_writing();

    int socket() const { return socket_; }

private:
    std::string read(std::size_t size);

    int socket_;
};

/// Returns when so many seconds have passed for the gateway, on every shard whose tick is not late;
/// a second later at most.
void let_pass(const Gateway& gateway, unsigned seconds);

/// The PUBLISH of a packet's bytes. The result views them.
Publish published(const std::string& packet, Version version = Version::v3_1_1);

/// Runs all of them at the same time, each on a thread of its own, and waits for all.
void at_once(const std::vector<std::function<void()>>& scenes);

/// How long something took.
class Stopwatch {
public:
    std::chrono::milliseconds elapsed() const {
        return std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - start_);
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace pulsegate
