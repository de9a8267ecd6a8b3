#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "protocol/reason.h"
#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"
#include "server/settings/config.h"

namespace pulsegate {

class Server;
class Shard;

/// The properties of every CONNACK of MQTT 5.0 with default settings, in packet notation: Receive
/// Maximum 256, Maximum Packet Size 256 KiB, Topic Alias Maximum 16.
inline constexpr const char* promises = "21 k256 27 w262144 22 k16";

/// A real gateway in this process, on loopback ports of its own: two shards, unless `adjust`
/// changes it. What it logs goes to `has_logged`.
class Gateway {
public:
    explicit Gateway(const std::function<void(Config&)>& adjust = {});
    ~Gateway();

    void stop();

    /// The first step of a stop: all users go offline, and clients stay connected.
    void announce_shutdown() const;

    /// Whatever shards had to tell one another before this, and what that brought about, has been
    /// told: it is done, or lies in sockets.
    void settle() const;

    std::vector<Shard*> shards() const;

    /// The work of all shards since the start.
    std::uint64_t work() const;

    /// Bytes that the sockets of all shards have not taken yet.
    std::size_t output_waiting() const;

    /// Moves the time of all gateways, which has stopped, and lets this one do what is due then.
    void pass(StoppedClock& clock, Millis time) const;

    /// The gateway stands still for so long, and wakes up at a tick.
    void stand_still(StoppedClock& clock, Millis time) const;

    /// A client that passes to another gateway in an upgrade.
    struct Passing {
        UniqueFd socket;
        std::string state;
    };
    /// False: it does not come to rest, and goes on.
    bool freeze() const;
    void thaw() const;
    /// All that an upgrade does until it has closed the store; then it fails.
    void fail_to_upgrade() const;
    /// Of one that is frozen. `left`: how many clients stay behind.
    std::vector<Passing> passing(std::size_t* left = nullptr) const;
    /// Returns how many it has taken.
    std::size_t adopt(std::vector<Passing> clients) const;

    /// Returns when it has as many connections.
    void await_connections(std::size_t count) const;

    std::uint16_t mqtt_port() const { return mqtt_port_; }
    std::uint16_t http_port() const { return http_port_; }
    /// If it was told to have one.
    std::uint16_t ws_port() const { return ws_port_; }

    /// True if one of the last log lines contains this text. Lines that are older than this
    /// gateway, of other tests, do not count.
    bool has_logged(std::string_view text) const;

private:
    const std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();
    std::unique_ptr<Server> server_;
    unsigned rounds_;  ///< through all shards, until what is under way has arrived
    std::uint16_t mqtt_port_ = 0;
    std::uint16_t http_port_ = 0;
    std::uint16_t ws_port_ = 0;
};

/// A user name that begins with `stem` and belongs to `shard` of two shards.
std::string at_home(unsigned shard, std::string_view stem);

/// One client's raw TCP connection, blocking with a timeout. A failed expectation ends the test.
class Conversation {
public:
    explicit Conversation(const Gateway& gateway, int receive_buffer = 0);
    /// With whatever listens there; `expect_nothing` is for conversations with a gateway.
    explicit Conversation(std::uint16_t port, int receive_buffer = 0);
    Conversation(Conversation&& other) noexcept;
    ~Conversation();

    /// Bytes in packet notation (see wire.h).
    Conversation& send(std::string_view notation);
    Conversation& send_bytes(std::string_view bytes);

    /// Reads as many bytes as the notation has; they must be the same.
    Conversation& expect(std::string_view notation);

    /// The gateway sends nothing more and closes.
    Conversation& expect_close();
    /// The gateway sends a DISCONNECT with this reason code and a reason string, and closes.
    Conversation& expect_close(Reason reason);

    /// Has the gateway sent nothing that was not read, nor closed? For what a PINGREQ would change.
    bool silent() const;

    /// Nothing was sent to it that it has not read: what its own packets and those that others had
    /// acknowledged bring about, on whatever shard, has been done, and a PINGREQ is answered before
    /// anything else comes.
    Conversation& expect_nothing();

    /// CONNECT with a clean session and CONNACK. The client id is the user too.
    Conversation& login(std::string_view client, Version version = Version::v3_1_1,
                        std::uint16_t keepalive = 60);

    /// The bytes of the next packet.
    std::string packet();

    /// Everything up to the close.
    std::string rest();

    void close();
    /// Closes with a reset.
    void reset();
    /// Sends a FIN; reading goes on.
    void close_writing();

    int socket() const { return socket_; }

private:
    std::string read(std::size_t size);
    void pass_over_unmatched(std::string_view expected, std::string& got);

    const Gateway* gateway_ = nullptr;
    int socket_;
};

/// Decodes a PUBLISH. The result views the bytes of `packet`.
Publish published(const std::string& packet, Version version = Version::v3_1_1);

/// Runs the scenes at the same time, each on a thread of its own, and waits for all.
void at_once(const std::vector<std::function<void()>>& scenes);

/// Measures the time since its construction.
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
