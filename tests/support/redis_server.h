#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "server/redis/redis_target.h"
#include "tests/support/claimed_port.h"
#include "tests/support/temporary_folder.h"

namespace pulsegate {

/// A real redis-server of the test's own, on a free port of loopback and in a folder of its own. It
/// ends with this object. Each step returns when the server has done it.
class RedisServer {
public:
    enum class Kind : std::uint8_t {
        plain,
        tls,       ///< with a certificate for 127.0.0.1 and localhost
        sentinel,  ///< {"--sentinel monitor", "NAME 127.0.0.1 PORT 1"}
    };

    /// `settings` are its own, as on its command line: {"--maxmemory", "10mb"}. By default all is
    /// in the append-only file, which is synced with each write.
    explicit RedisServer(std::vector<std::string> settings = {}, Kind kind = Kind::plain);
    ~RedisServer();
    RedisServer(const RedisServer&) = delete;
    RedisServer& operator=(const RedisServer&) = delete;

    std::uint16_t port() const { return port_.number(); }
    RedisTarget target() const;
    std::string folder() const { return folder_.path("data"); }

    /// Starts it again, on the same port and with the same data.
    void start();
    void kill();
    /// It does not run any more, and keeps its connections.
    void stop();
    void go_on();

private:
    std::vector<std::string> command_line() const;
    void write_sentinel_settings() const;
    void await_ready(int output);

    TemporaryFolder folder_;
    std::vector<std::string> settings_;
    Kind kind_;
    ClaimedPort port_;
    pid_t process_ = 0;
    std::thread log_;  ///< reads what it says, or it would stand still
};

}  // namespace pulsegate
