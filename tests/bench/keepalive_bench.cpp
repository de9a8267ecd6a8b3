// What a PINGREQ costs a broker, with many clients that each seldom send one: Pulsegate beside
// mosquitto and beside a bare epoll loop that answers the same bytes, the least any server can do.
//
//     keepalive-bench [--clients N] [--rate PINGS/S] [--seconds S] [--rounds N]
//                     [--pulsegate PATH] [--mosquitto PATH]
//
// The peers take turns on CPU 0, each with one thread that serves; the clients are on CPU 1. Pings
// leave on schedule, evenly spread, whatever the answers do, from the clients in random order.
// Times vary with whatever else the machine does, so a round compares the peers right after one
// another, and the median of the rounds' ratios counts.

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "tests/bench/peer.h"

using namespace pulsegate::bench;

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::uint32_t clients = 15'000;
    double rate = 20'000;
    double seconds = 5;
    int rounds = 5;
    std::string pulsegate = "build/pulsegate";
    std::string mosquitto = "/usr/sbin/mosquitto";
};

Options parse(int argc, char** argv) {
    Options options;
    const std::map<std::string_view, std::function<void(const char*)>> known{
        {"--clients", [&](auto text) { options.clients = static_cast<unsigned>(std::atoi(text)); }},
        {"--rate", [&](auto text) { options.rate = std::atof(text); }},
        {"--seconds", [&](auto text) { options.seconds = std::atof(text); }},
        {"--rounds", [&](auto text) { options.rounds = std::atoi(text); }},
        {"--pulsegate", [&](auto text) { options.pulsegate = text; }},
        {"--mosquitto", [&](auto text) { options.mosquitto = text; }},
    };
    for (int i = 1; i < argc; i += 2) {
        const auto found = known.find(argv[i]);
        if (found == known.end() || i + 1 == argc) fail(fmt::format("what is {}?", argv[i]));
        found->second(argv[i + 1]);
    }
    return options;
}

/// A CONNACK for a CONNECT, a PINGRESP for each PINGREQ, and nothing else.
void serve_barely(std::uint16_t port) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const auto address = loopback(1, port);
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) return;
    listen(listener, 4096);
    const int epoll = epoll_create1(0);
    const auto watch = [epoll](int socket) {
        epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    };
    watch(listener);
    std::array<epoll_event, 128> events;
    std::array<char, 4096> input;
    while (true) {
        const int ready = epoll_wait(epoll, events.data(), events.size(), -1);
        for (int i = 0; i < ready; ++i) {
            const int socket = events[static_cast<std::size_t>(i)].data.fd;
            if (socket == listener) {
                const int client = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
                if (client < 0) continue;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                watch(client);
                continue;
            }
            const auto size = recv(socket, input.data(), input.size(), 0);
            if (size <= 0) {
                close(socket);
                continue;
            }
            if (input[0] == '\x10') {
                send(socket, "\x20\x02\x00\x00", 4, MSG_NOSIGNAL);
                continue;
            }
            for (auto left = size; left >= 2; left -= 2) send(socket, "\xD0\x00", 2, MSG_NOSIGNAL);
        }
    }
}

/// Clients that log in and then ping on schedule.
class Clients {
public:
    Clients(std::uint32_t count, std::uint16_t port) : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        for (std::uint32_t i = 0; i < count; ++i) {
            sockets_.push_back(log_in(i, port, fmt::format("client-{:06}", i)));
            epoll_event event{.events = EPOLLIN, .data = {.fd = sockets_.back()}};
            epoll_ctl(epoll_, EPOLL_CTL_ADD, sockets_.back(), &event);
        }
    }
    Clients(const Clients&) = delete;
    Clients& operator=(const Clients&) = delete;
    ~Clients() {
        for (const int socket : sockets_) drop(socket);
        close(epoll_);
    }

    /// Sends `rate` pings a second for so long, and waits for the answers. Returns how many.
    std::uint64_t ping(double rate, double seconds) {
        const auto start = Clock::now();
        const auto count = static_cast<std::uint64_t>(rate * seconds);
        const auto answered = answers_ + count;
        std::uint64_t sent = 0;
        while (answers_ < answered) {
            const double passed = std::chrono::duration<double>(Clock::now() - start).count();
            if (passed > seconds + 5) fail("a peer does not keep up");
            const auto due = std::min(count, static_cast<std::uint64_t>(passed * rate));
            for (; sent < due; ++sent) send(next(), "\xC0\x00", 2, MSG_NOSIGNAL);
            take_answers();
        }
        return count;
    }

private:
    /// All clients in random order, then in another one.
    int next() {
        if (turn_ == sockets_.size()) turn_ = 0;
        if (turn_ == 0) std::shuffle(sockets_.begin(), sockets_.end(), random_);
        return sockets_[turn_++];
    }

    void take_answers() {
        std::array<epoll_event, 128> events;
        std::array<char, 256> input;
        const int ready = epoll_wait(epoll_, events.data(), events.size(), 0);
        for (int i = 0; i < ready; ++i) {
            const auto size =
                recv(events[static_cast<std::size_t>(i)].data.fd, input.data(), input.size(), 0);
            if (size <= 0) fail("a peer closed a connection");
            answers_ += static_cast<std::uint64_t>(size) / 2;
        }
    }

    int epoll_;
    std::vector<int> sockets_;
    std::size_t turn_ = 0;
    std::uint64_t answers_ = 0;
    std::mt19937 random_{1};
};

struct Contender {
    std::string name;
    std::function<void(std::uint16_t port)> serve;
    std::vector<double> login{};   ///< µs of CPU per client
    std::vector<double> memory{};  ///< bytes per client
    std::vector<double> ping{};    ///< µs of CPU per PINGREQ
    std::vector<double> ratio{};   ///< of it to the bare loop's in the same round
};

void measure(Contender& contender, const Options& options) {
    const auto port = free_port();
    const Peer peer(port, 0, [&] { contender.serve(port); });
    const double memory = peer.memory();
    const double before_login = peer.cpu();
    Clients clients(options.clients, port);
    contender.login.push_back((peer.cpu() - before_login) / options.clients * 1e6);
    clients.ping(options.rate, 1);  // every client has been heard of, and every page touched
    contender.memory.push_back((peer.memory() - memory) / options.clients);
    const double before = peer.cpu();
    const auto pings = clients.ping(options.rate, options.seconds);
    contender.ping.push_back((peer.cpu() - before) / static_cast<double>(pings) * 1e6);
    remove_mosquitto_file(port);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void run(const Options& options) {
    pin_to(1);
    std::vector<Contender> contenders{{"bare epoll loop", serve_barely}};
    contenders.push_back(
        {"pulsegate", [&](std::uint16_t port) { execute_pulsegate(options.pulsegate, port); }});
    if (access(options.mosquitto.c_str(), X_OK) == 0)
        contenders.push_back(
            {"mosquitto", [&](std::uint16_t port) { execute_mosquitto(options.mosquitto, port); }});
    else
        fmt::print("{} is not here: without it\n", options.mosquitto);

    fmt::print("{} clients, {:.0f} pings a second for {:.0f} s, {} rounds\n", options.clients,
               options.rate, options.seconds, options.rounds);
    for (int round = 0; round < options.rounds; ++round) {
        for (Contender& contender : contenders) {
            measure(contender, options);
            contender.ratio.push_back(contender.ping.back() / contenders.front().ping.back());
            fmt::print("  {:<16}{:6.2f} us a ping, {:.2f} of the bare loop\n", contender.name,
                       contender.ping.back(), contender.ratio.back());
            std::fflush(stdout);
        }
    }
    fmt::print("\n{:<18}{:>12}{:>10}{:>9}{:>16}{:>14}\n", "median", "us per ping", "of bare",
               "(worst)", "us per login", "bytes idle");
    for (const Contender& contender : contenders)
        fmt::print("{:<18}{:>12.2f}{:>10.2f}{:>9.2f}{:>16.1f}{:>14.0f}\n", contender.name,
                   median(contender.ping), median(contender.ratio),
                   *std::max_element(contender.ratio.begin(), contender.ratio.end()),
                   median(contender.login), median(contender.memory));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run(parse(argc, argv));
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "keepalive-bench: {}\n", error.what());
        return 1;
    }
}
