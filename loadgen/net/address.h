#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pulsegate::load {

/// An IPv4 or IPv6 address with its port.
class SocketAddress {
public:
    SocketAddress() = default;
    SocketAddress(const sockaddr* address, socklen_t size);

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
    socklen_t size() const { return size_; }
    int family() const { return storage_.ss_family; }

    bool loopback() const;
    std::string text() const;  ///< without the port

private:
    sockaddr_storage storage_{};
    socklen_t size_ = 0;
};

/// All addresses of a host. Throws `std::runtime_error`, which names the host. Blocks: for
/// start-up only.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);

/// 127.0.0.1 and upwards, port 0: a source has only 28,000 ports towards each address of a server.
std::vector<SocketAddress> loopback_sources(std::uint32_t how_many);

}  // namespace pulsegate::load
