#pragma once

#include <sys/epoll.h>

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/bench/peer.h"

namespace pulsegate::bench {

/// The least that a server can do which gives the same answers on the wire: an epoll loop that
/// takes each packet for whole, believes everything, and knows nothing but who has subscribed to
/// what.
class BareServer {
public:
    explicit BareServer(std::uint16_t port)
        : epoll_(epoll_create1(0)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
        const int on = 1;
        setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(listener_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited
        const auto address = loopback(1, port);
        if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
            fail("the bare server's port is taken");
        listen(listener_, 4096);
        watch(listener_);
    }

    [[noreturn]] void serve() {
        std::array<epoll_event, 128> events;
        while (true) {
            const int ready = epoll_wait(epoll_, events.data(), events.size(), -1);
            for (int i = 0; i < ready; ++i) {
                const int socket = events[static_cast<std::size_t>(i)].data.fd;
                socket == listener_ ? accept_one() : read(socket);
            }
        }
    }

private:
    void watch(int socket) const {
        epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
        epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
    }

    void accept_one() const {
        const int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
        if (client >= 0) watch(client);
    }

    void read(int socket) {
        const auto size = recv(socket, input_.data(), input_.size(), 0);
        if (size <= 0) return forget(socket);
        std::string_view packets(input_.data(), static_cast<std::size_t>(size));
        while (packets.size() >= 2) {
            const auto length = 2u + static_cast<unsigned char>(packets[1]);
            answer(socket, packets.substr(0, length));
            packets.remove_prefix(std::min<std::size_t>(length, packets.size()));
        }
    }

    void answer(int socket, std::string_view packet) {
        switch (packet[0] & 0xF0) {
            case 0x10: return say(socket, std::string_view("\x20\x02\x00\x00", 4));
            case 0xC0: return say(socket, std::string_view("\xD0\x00", 2));
            case 0x80: return subscribe(socket, packet);
            case 0x30: return publish(socket, packet);
            default: return;
        }
    }

    void subscribe(int socket, std::string_view packet) {
        const std::string topic(topic_at(packet, 4));
        subscribers_[topic].push_back(socket);
        topics_[socket] = topic;
        say(socket, std::string("\x90\x03", 2).append(packet.substr(2, 2)) + packet.back());
    }

    void publish(int socket, std::string_view packet) {
        const auto topic = topic_at(packet, 2);
        const auto found = subscribers_.find(std::string(topic));
        if (found != subscribers_.end())
            for (const int subscriber : found->second) say(subscriber, packet);
        if ((packet[0] & 0x06) != 0)
            say(socket, std::string("\x40\x02").append(packet.substr(4 + topic.size(), 2)));
    }

    void forget(int socket) {
        if (const auto topic = topics_.find(socket); topic != topics_.end()) {
            std::erase(subscribers_[topic->second], socket);
            topics_.erase(topic);
        }
        close(socket);
    }

    static std::string_view topic_at(std::string_view packet, std::size_t place) {
        return packet.substr(place + 2, static_cast<unsigned char>(packet[place + 1]));
    }

    static void say(int socket, std::string_view bytes) {
        send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }

    int epoll_;
    int listener_;
    std::array<char, 16 * 1024> input_{};
    std::unordered_map<std::string, std::vector<int>> subscribers_;
    std::unordered_map<int, std::string> topics_;
};

/// For `Peer`.
inline void serve_barely(std::uint16_t port) { BareServer(port).serve(); }

}  // namespace pulsegate::bench
