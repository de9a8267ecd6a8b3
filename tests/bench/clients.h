#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <random>

#include "tests/bench/peer.h"

namespace pulsegate::bench {

using Clock = std::chrono::steady_clock;

/// Has `count` clients log in, send what `packets` says, which begins with their CONNECT, await so
/// many bytes of answers, and leave with DISCONNECT.
inline void visit(std::uint16_t port, std::size_t count,
                  const std::function<std::string(std::size_t client)>& packets,
                  std::size_t answers) {
    constexpr std::size_t wave = 100;  // what listeners let wait
    std::vector<int> sockets;
    for (std::size_t begin = 0; begin < count; begin += wave) {
        sockets.clear();
        for (std::size_t i = begin; i < std::min(count, begin + wave); ++i) {
            sockets.push_back(connect_from(static_cast<std::uint32_t>(i % 10'000), port));
            if (sockets.back() < 0) fail("connection refused");
            const auto bytes = packets(i);
            send(sockets.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        }
        for (const int socket : sockets) {
            const auto bytes = read_exactly(socket, answers);
            if (bytes[3] != 0 || bytes.back() == '\x80') fail("login or subscription refused");
            send(socket, "\xE0\x00", 2, MSG_NOSIGNAL);
        }
        for (const int socket : sockets) {
            char end = 0;
            recv(socket, &end, 1, 0);  // a reset before the peer has read it would be no DISCONNECT
            drop(socket);
        }
    }
}

/// A client that has a session with one subscription.
struct Member {
    std::string client;
    std::string topic;
};
using Members = std::function<Member(std::size_t number)>;

/// Makes sessions of disconnected clients.
inline void make_sessions(std::uint16_t port, std::size_t count, const Members& members) {
    const auto packets = [&](std::size_t number) {
        const Member member = members(number);
        return connect_packet(member.client, false) + subscribe_packet(member.topic, 1);
    };
    visit(port, count, packets, 4 + 5);
}

/// Ends them, with all that waits for them.
inline void end_sessions(std::uint16_t port, std::size_t count, const Members& members) {
    visit(
        port, count, [&](std::size_t number) { return connect_packet(members(number).client); }, 4);
}

/// What was published, and how long it took until it was acknowledged.
struct Published {
    std::size_t messages = 0;
    double seconds = 0;                ///< until the last of them
    std::vector<double> waits{};       ///< of each, in ms, from the moment when it was due
    std::vector<double> deliveries{};  ///< the same until a receiver among the clients had it
};

/// Messages to publish at QoS 1.
struct Messages {
    std::string payload;  ///< begins with room for the moment when the message is due
    std::function<std::string()> next_topic;
};

/// How clients wait for what arrives.
enum class Waiting {
    for_events,
    /// They look ten times in a millisecond. A client that waits for events must be woken by
    /// the server's send, on the same machine only, and the kernel charges that to the server.
    by_clock,
};

/// Clients that publish, and acknowledge what they get. One thread serves them all.
class Clients {
public:
    /// Logs them in, with clean sessions or with those that they have.
    Clients(std::uint16_t port, std::size_t count, bool clean,
            const std::function<std::string(std::size_t number)>& name)
        : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        for (std::size_t i = 0; i < count; ++i) {
            clients_.push_back({log_in(static_cast<std::uint32_t>(i), port, name(i), clean)});
            epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
            epoll_ctl(epoll_, EPOLL_CTL_ADD, clients_[i].socket, &event);
        }
    }
    Clients(const Clients&) = delete;
    Clients& operator=(const Clients&) = delete;
    ~Clients() {
        for (const Client& client : clients_) drop(client.socket);
        close(epoll_);
    }

    /// Each keeps `window` messages unacknowledged while `more` says so.
    Published publish(const Messages& messages, std::size_t window,
                      const std::function<bool()>& more) {
        begin();
        const auto fill = [&](Client& client) {
            while (client.due.size() < window && more())
                add_message(client, messages, Clock::now());
        };
        for (Client& client : clients_) {
            fill(client);
            flush(client);
        }
        while (unacknowledged_ > 0) take(Clock::now() + std::chrono::seconds(1), fill);
        return finish();
    }

    /// Random ones publish `rate` messages a second, whatever the answers do.
    Published publish_on_schedule(const Messages& messages, double rate, double seconds,
                                  Waiting waiting = Waiting::for_events) {
        begin();
        const std::chrono::duration<double> pause(1 / rate);
        const auto count = static_cast<std::size_t>(rate * seconds);
        std::size_t sent = 0;
        const auto due = [&] {
            const auto passed = pause * static_cast<double>(sent);
            return start_ + std::chrono::duration_cast<Clock::duration>(passed);
        };
        while (sent < count || unacknowledged_ > 0) {
            for (const auto now = Clock::now(); sent < count && due() <= now; ++sent) {
                Client& client = clients_[random_() % clients_.size()];
                add_message(client, messages, due());
                flush(client);
            }
            auto until = sent < count ? due() : Clock::now() + std::chrono::seconds(1);
            if (waiting == Waiting::by_clock) {
                std::this_thread::sleep_for(std::chrono::microseconds(100));
                until = Clock::now();
            }
            take(until, [](Client&) {});
        }
        return finish();
    }

private:
    struct Client {
        int socket;
        std::uint16_t last_id = 0;
        std::deque<Clock::time_point> due{};  ///< of the messages that are not acknowledged
        std::string input{};
        std::string output{};
    };

    void begin() {
        published_ = {};
        start_ = last_answer_ = Clock::now();
    }

    Published finish() {
        published_.seconds = std::chrono::duration<double>(last_answer_ - start_).count();
        return std::move(published_);
    }

    void add_message(Client& client, const Messages& messages, Clock::time_point due) {
        if (++client.last_id == 0) ++client.last_id;
        const std::string id{static_cast<char>(client.last_id >> 8),
                             static_cast<char>(client.last_id)};
        std::string payload = messages.payload;
        std::memcpy(payload.data(), &due, sizeof due);
        client.output += packet('\x32', text(messages.next_topic()) + id + payload);
        client.due.push_back(due);
        ++unacknowledged_;
    }

    static void flush(Client& client) {
        if (!client.output.empty())
            send(client.socket, client.output.data(), client.output.size(), MSG_NOSIGNAL);
        client.output.clear();
    }

    /// Takes what arrives, once, and waits for it until then. Calls `then` for clients that got it.
    template <class Then>
    void take(Clock::time_point until, Then then) {
        const auto left = std::max(until - Clock::now(), Clock::duration::zero()).count();
        const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
        std::array<epoll_event, 128> events;
        const int ready = epoll_pwait2(epoll_, events.data(), events.size(), &wait, nullptr);
        for (int i = 0; i < ready; ++i) {
            Client& client = clients_[events[static_cast<std::size_t>(i)].data.u64];
            char bytes[16 * 1024];
            const auto size = recv(client.socket, bytes, sizeof bytes, 0);
            if (size <= 0) fail("the peer closed a connection");
            client.input.append(bytes, static_cast<std::size_t>(size));
            read_packets(client);
            then(client);
            flush(client);
        }
        if (Clock::now() - last_answer_ > std::chrono::seconds(30) && unacknowledged_ > 0)
            fail("a peer does not acknowledge");
    }

    void read_packets(Client& client) {
        const auto now = Clock::now();
        std::string_view left = client.input;
        while (const auto size = packet_size(left)) {
            if (left[0] == '\x40') acknowledged(client, left, now);
            if ((left[0] & 0xF6) == 0x32) take_message(client, left, now);
            left.remove_prefix(*size);
        }
        client.input.erase(0, client.input.size() - left.size());
    }

    /// Nothing if it is not there completely. No packet here has more than 16,383 bytes.
    static std::optional<std::size_t> packet_size(std::string_view bytes) {
        if (bytes.size() < 2) return std::nullopt;
        std::size_t size = 2u + (bytes[1] & 127);
        if (bytes[1] & 128) {
            if (bytes.size() < 3) return std::nullopt;
            size += 1u + static_cast<unsigned char>(bytes[2]) * 128u;
        }
        return size <= bytes.size() ? std::optional(size) : std::nullopt;
    }

    void acknowledged(Client& client, std::string_view puback, Clock::time_point now) {
        const auto oldest = static_cast<std::uint16_t>(static_cast<unsigned char>(puback[2]) << 8 |
                                                       static_cast<unsigned char>(puback[3]));
        // MQTT 3.1.1, 4.6: in the order of the messages. Identifiers pass 0 once in 65,536.
        const auto open = static_cast<std::uint16_t>(client.last_id - oldest);
        if (client.due.empty() || open + 1u < client.due.size() || open > client.due.size())
            fail("a message was acknowledged out of order");
        const std::chrono::duration<double, std::milli> wait = now - client.due.front();
        client.due.pop_front();
        published_.waits.push_back(wait.count());
        ++published_.messages;
        --unacknowledged_;
        last_answer_ = now;
    }

    /// One of QoS 1, which is acknowledged.
    void take_message(Client& client, std::string_view publish, Clock::time_point now) {
        const std::size_t topic = publish[1] & 128 ? 3 : 2;
        const auto length = static_cast<unsigned char>(publish[topic]) * 256u +
                            static_cast<unsigned char>(publish[topic + 1]);
        client.output += "\x40\x02";
        client.output += publish.substr(topic + 2 + length, 2);
        Clock::time_point due;
        std::memcpy(&due, publish.data() + topic + 4 + length, sizeof due);
        const std::chrono::duration<double, std::milli> passed = now - due;
        published_.deliveries.push_back(passed.count());
    }

    int epoll_;
    std::vector<Client> clients_;
    std::mt19937 random_{2};  // not that of the topics, or all would write to themselves
    Clock::time_point start_;
    Clock::time_point last_answer_;
    std::size_t unacknowledged_ = 0;
    Published published_;
};

}  // namespace pulsegate::bench
