// What a PINGREQ costs a broker, with many clients that each seldom send one: Pulsegate beside
// mosquitto and beside a bare epoll loop that answers the same bytes, the least any server can do.
//
//     keepalive-bench [--clients N] [--rate PINGS/S] [--seconds S] [--rounds N]
//                     [--subscribe 1] [--syscalls 1] [--uring 1] [--json FILE]
//                     [--pulsegate PATH]... [--mosquitto PATH]
//
// Several builds of Pulsegate can be compared with one another. --subscribe gives each client a
// subscription to a topic of its own. --syscalls has perf count the server's system calls in a
// round of its own, for it slows them down. --uring adds a bare loop of io_uring, if liburing-dev
// was there when this was compiled.
//
// All peers are up with all their clients, the servers on CPU 0, the clients on CPU 1, and they
// take turns: one second each, round after round, because times vary with whatever else the machine
// does. The median of the rounds' ratios counts. Pings leave on schedule, evenly spread, whatever
// the answers do, from the clients in random order.

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "tests/bench/bare.h"
#if __has_include(<liburing.h>)
#include "tests/bench/bare_uring.h"
#define HAS_URING 1
#endif

using namespace pulsegate::bench;

namespace {

using Clock = std::chrono::steady_clock;

struct Options : CommonOptions {
    std::uint32_t clients = 15'000;
    double rate = 20'000;
    bool subscribe = false;
    bool syscalls = false;
    bool uring = false;
};

Options parse(int argc, char** argv) {
    Options options;
    options.rounds = 20;
    const KnownOptions known{
        {"--clients", [&](auto text) { options.clients = static_cast<unsigned>(std::atoi(text)); }},
        {"--rate", [&](auto text) { options.rate = std::atof(text); }},
        {"--subscribe", [&](auto text) { options.subscribe = std::atoi(text) != 0; }},
        {"--syscalls", [&](auto text) { options.syscalls = std::atoi(text) != 0; }},
        {"--uring", [&](auto text) { options.uring = std::atoi(text) != 0; }},
    };
    read_options(argc, argv, options, known);
    return options;
}

/// Clients that log in and then ping on schedule.
class Clients {
public:
    Clients(std::uint32_t count, std::uint16_t port, bool subscribe)
        : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto name = fmt::format("client-{:06}", i);
            sockets_.push_back(log_in(i, port, name));
            if (subscribe) {
                const auto request = subscribe_packet("inbox/" + name, 1);
                send(sockets_.back(), request.data(), request.size(), MSG_NOSIGNAL);
                read_exactly(sockets_.back(), 5);
            }
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

struct Order {
    double rate;
    double seconds;
};

/// Returns how many pings were answered.
using PingDriver = Driver<Order, std::uint64_t>;

/// A broker with all its clients logged in.
struct Contender {
    Contender(std::string title, const Options& options,
              const std::function<void(std::uint16_t port)>& serve)
        : name(std::move(title)), port(free_port()), peer(port, 0, [&] { serve(port); }) {
        const double memory_before = peer.memory();
        const double cpu_before = peer.cpu();
        const auto clients = options.clients;
        driver = std::make_unique<PingDriver>([&options, own_port = port] {
            const auto pinging =
                std::make_shared<Clients>(options.clients, own_port, options.subscribe);
            return
                [pinging](const Order& order) { return pinging->ping(order.rate, order.seconds); };
        });
        login = (peer.cpu() - cpu_before) / clients * 1e6;
        memory = (peer.memory() - memory_before) / clients;
    }
    ~Contender() { remove_files(port); }

    double ping(const Options& options) const {
        const double before = peer.cpu();
        const auto pings = driver->carry_out({options.rate, options.seconds});
        return (peer.cpu() - before) / static_cast<double>(pings) * 1e6;
    }

    /// System calls for a ping.
    double count_syscalls(const Options& options) const {
        const SyscallCount count(peer.pid());
        const auto pings = driver->carry_out({options.rate, options.seconds});
        return count.finish() / static_cast<double>(pings);
    }

    const std::string name;
    const std::uint16_t port;
    Peer peer;
    std::unique_ptr<PingDriver> driver;
    double login = 0;              ///< us of CPU per client
    double memory = 0;             ///< bytes per client
    std::vector<double> pings{};   ///< us of CPU per PINGREQ, round by round
    std::vector<double> ratios{};  ///< of it to the bare loop's in the same round
};

void run(const Options& options) {
    pin_to(1);
    std::vector<std::unique_ptr<Contender>> contenders;
    const auto enter = [&](const std::string& name, const auto& serve) {
        contenders.push_back(std::make_unique<Contender>(name, options, serve));
    };
    enter("bare epoll loop", [](std::uint16_t port) { serve_barely(port); });
#ifdef HAS_URING
    if (options.uring) enter("bare io_uring loop", serve_barely_with_uring);
#else
    if (options.uring) fail("--uring: this was compiled without liburing-dev");
#endif
    for (const auto& binary : options.pulsegate)
        enter(binary, [&](std::uint16_t port) { execute_pulsegate(binary, port, options.events); });
    if (access(options.mosquitto.c_str(), X_OK) == 0)
        enter("mosquitto", [&](std::uint16_t port) { execute_mosquitto(options.mosquitto, port); });
    else
        fmt::print("{} is not here: without it\n", options.mosquitto);

    fmt::print("{} clients each, {:.0f} pings a second, {} rounds of {} s\n", options.clients,
               options.rate, options.rounds, options.seconds);
    for (auto& contender : contenders) contender->ping(options);  // what is to grow has grown
    for (int round = 0; round < options.rounds; ++round) {
        for (auto& contender : contenders) contender->pings.push_back(contender->ping(options));
        for (auto& contender : contenders)
            contender->ratios.push_back(contender->pings.back() / contenders[0]->pings.back());
    }
    fmt::print("\n{:<24}{:>12}{:>10}{:>14}{:>15}{:>13}\n", "median", "us per ping", "of bare",
               "(quartiles)", "us per login", "bytes idle");
    for (const auto& contender : contenders)
        fmt::print("{:<24}{:>12.2f}{:>10.2f}{:>8.2f}, {:.2f}{:>15.1f}{:>13.0f}\n", contender->name,
                   quantile(contender->pings, 0.5), quantile(contender->ratios, 0.5),
                   quantile(contender->ratios, 0.25), quantile(contender->ratios, 0.75),
                   contender->login, contender->memory);
    Figures figures;
    for (const auto& contender : contenders) {
        figures["ping"][contender->name] = contender->pings;
        figures["idle bytes"][contender->name] = {contender->memory};
        if (!options.syscalls) continue;
        const double calls = contender->count_syscalls(options);
        figures["system calls of a ping"][contender->name] = {calls};
        fmt::print("{}: {:.2f} system calls for a ping\n", contender->name, calls);
    }
    if (!options.json.empty()) write_json(options.json, figures);
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
