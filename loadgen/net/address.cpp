#include "loadgen/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <stdexcept>

namespace pulsegate::load {

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) : size_(size) {
    std::memcpy(&storage_, address, size);
}

bool SocketAddress::loopback() const {
    if (family() == AF_INET6) {
        const auto& address = reinterpret_cast<const sockaddr_in6&>(storage_);
        return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
    }
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage_);
    return family() == AF_INET && ntohl(address.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

std::string SocketAddress::text() const {
    char text[NI_MAXHOST] = "";
    getnameinfo(get(), size_, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    return text;
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (status != 0)
        throw std::runtime_error("can't resolve " + host + ": " + gai_strerror(status));

    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
    std::vector<SocketAddress> addresses;
    for (const addrinfo* each = list.get(); each; each = each->ai_next)
        addresses.emplace_back(each->ai_addr, each->ai_addrlen);
    return addresses;
}

std::vector<SocketAddress> loopback_sources(std::uint32_t how_many) {
    std::vector<SocketAddress> sources;
    for (std::uint32_t i = 0; i < how_many; ++i) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
        sources.emplace_back(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    return sources;
}

}  // namespace pulsegate::load
