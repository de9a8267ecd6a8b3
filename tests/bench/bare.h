#pragma once

#include <sys/epoll.h>

#include <array>
#include <list>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/bench/peer.h"

namespace pulsegate::bench {

/// The subscribers of each topic, for the loops of all threads.
class BareSubscribers {
public:
    void add(int socket, const std::string& topic) {
        const std::lock_guard lock(mutex_);
        subscribers_[topic].push_back(socket);
        topics_[socket] = topic;
    }

    void remove(int socket) {
        const std::lock_guard lock(mutex_);
        const auto topic = topics_.find(socket);
        if (topic == topics_.end()) return;
        std::erase(subscribers_[topic->second], socket);
        topics_.erase(topic);
    }

    template <class Visit>
    void for_each(const std::string& topic, Visit visit) {
        const std::shared_lock lock(mutex_);
        const auto found = subscribers_.find(topic);
        if (found == subscribers_.end()) return;
        for (const int subscriber : found->second) visit(subscriber);
    }

private:
    std::shared_mutex mutex_;
    std::unordered_map<std::string, std::vector<int>> subscribers_;
    std::unordered_map<int, std::string> topics_;
};

/// The least that a server can do which gives the same answers on the wire: an epoll loop that
/// takes each packet for whole, believes everything, and knows only the subscribers of each
/// topic. Several share a port, and send to one another's sockets.
class BareServer {
public:
    BareServer(std::uint16_t port, BareSubscribers& subscribers)
        : epoll_(epoll_create1(0)),
          listener_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)),
          subscribers_(subscribers) {
        const int on = 1;
        setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(listener_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
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
        subscribers_.add(socket, std::string(topic_at(packet, 4)));
        say(socket, std::string("\x90\x03", 2).append(packet.substr(2, 2)) + packet.back());
    }

    void publish(int socket, std::string_view packet) {
        const auto topic = topic_at(packet, 2);
        subscribers_.for_each(std::string(topic), [&](int to) { say(to, packet); });
        if ((packet[0] & 0x06) != 0)
            say(socket, std::string("\x40\x02").append(packet.substr(4 + topic.size(), 2)));
    }

    void forget(int socket) {
        subscribers_.remove(socket);
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
    BareSubscribers& subscribers_;
};

/// For `Peer`: with so many threads.
inline void serve_barely(std::uint16_t port, unsigned loops = 1) {
    BareSubscribers subscribers;
    std::list<BareServer> servers;
    while (servers.size() < loops) servers.emplace_back(port, subscribers);
    for (auto server = std::next(servers.begin()); server != servers.end(); ++server)
        std::thread([server] { server->serve(); }).detach();
    servers.front().serve();
}

}  // namespace pulsegate::bench
