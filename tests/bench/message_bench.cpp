// What a message and a login cost a broker, CPU time of the server: Pulsegate beside mosquitto and
// beside a bare epoll loop that does the same on the wire.
//
//     message-bench [--pairs N] [--room N] [--seconds S] [--rounds N]
//                   [--events on] [--shards N] [--json FILE] [--pulsegate PATH]... [--mosquitto
//                   PATH]
//
// One to one: each of the pairs' publishers keeps a few messages of 64 bytes under way to its
// subscriber. Room: one publisher, and all others subscribe. A delivery includes all that belongs
// to it: the PUBLISH that comes in, the one that leaves, and at QoS 1 both acknowledgements. The
// servers are on CPU 0, the clients on CPU 1, and they take turns.
//
// --shards N adds each build of Pulsegate with so many shards, and a bare epoll loop with so
// many threads, on all CPUs. Their throughput ends where the busiest thread has no time left: so
// what counts is the CPU time of that thread.

#include <map>
#include <memory>

#include "tests/bench/bare.h"

using namespace pulsegate::bench;

namespace {

using Clock = std::chrono::steady_clock;

struct Options : CommonOptions {
    unsigned pairs = 100;
    unsigned room = 1'000;
    unsigned shards = 1;
};

Options parse(int argc, char** argv) {
    Options options;
    const KnownOptions known{
        {"--pairs", [&](auto text) { options.pairs = static_cast<unsigned>(std::atoi(text)); }},
        {"--shards", [&](auto text) { options.shards = static_cast<unsigned>(std::atoi(text)); }},
        {"--room", [&](auto text) { options.room = static_cast<unsigned>(std::atoi(text)); }},
    };
    read_options(argc, argv, options, known);
    return options;
}

/// A subscriber that counts the messages it gets, and acknowledges those of QoS 1.
class Subscriber {
public:
    Subscriber(std::uint16_t port, unsigned number, std::string_view topic, int qos)
        : socket_(log_in(number, port, fmt::format("subscriber-{}", number))) {
        const auto request = subscribe_packet(topic, qos);
        send(socket_, request.data(), request.size(), MSG_NOSIGNAL);
        read_exactly(socket_, 5);
    }
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;
    ~Subscriber() { drop(socket_); }

    /// Waits for `count` messages.
    void take(unsigned count) {
        std::string acknowledgements;
        while (count > 0) {
            char bytes[16 * 1024];
            const auto size = recv(socket_, bytes, sizeof bytes, 0);
            if (size <= 0) fail("the peer closed a connection");
            unread_.append(bytes, static_cast<std::size_t>(size));
            std::string_view left = unread_;
            while (left.size() >= 2 && left.size() >= 2u + static_cast<unsigned char>(left[1])) {
                if ((left[0] & 0x06) != 0) {
                    const auto topic_size = static_cast<unsigned char>(left[3]);
                    acknowledgements += "\x40\x02";
                    acknowledgements += left.substr(4u + topic_size, 2);
                }
                left.remove_prefix(2u + static_cast<unsigned char>(left[1]));
                --count;
            }
            unread_.erase(0, unread_.size() - left.size());
        }
        if (!acknowledgements.empty())
            send(socket_, acknowledgements.data(), acknowledgements.size(), MSG_NOSIGNAL);
    }

private:
    int socket_;
    std::string unread_;
};

class Publisher {
public:
    Publisher(std::uint16_t port, unsigned number, std::string_view topic, int qos)
        : socket_(log_in(number, port, fmt::format("publisher-{}", number))), qos_(qos) {
        message_ = packet(static_cast<char>(0x30 | qos << 1),
                          text(topic) + (qos ? std::string("\0\1", 2) : "") + std::string(64, 'x'));
    }
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;
    ~Publisher() { drop(socket_); }

    void publish() { send(socket_, message_.data(), message_.size(), MSG_NOSIGNAL); }
    void take_acknowledgement() {
        if (qos_ > 0) read_exactly(socket_, 4);
    }

private:
    int socket_;
    int qos_;
    std::string message_;
};

struct Contender {
    Contender(std::string title, int cpu, const std::function<void(std::uint16_t port)>& serve)
        : name(std::move(title)), port(free_port()), peer(port, cpu, [&] { serve(port); }) {}
    ~Contender() { remove_files(port); }

    const std::string name;
    const std::uint16_t port;
    Peer peer;
    std::map<std::string, std::vector<double>> costs{};    ///< us of CPU, by what was done
    std::map<std::string, std::vector<double>> busiest{};  ///< the same of its busiest thread
};

/// Of the thread that has worked most since then, in seconds.
double busiest(const Peer& peer, const std::map<std::string, double>& before) {
    double most = 0;
    for (const auto& [thread, spent] : peer.threads()) {
        const auto found = before.find(thread);
        most = std::max(most, spent - (found == before.end() ? 0 : found->second));
    }
    return most;
}

/// Repeats `work`, which returns how much it did, and notes what one costs the peer.
template <class Work>
void measure(Contender& contender, const std::string& what, double seconds, Work work) {
    const double before = contender.peer.cpu();
    const auto threads_before = contender.peer.threads();
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    std::uint64_t done = 0;
    while (Clock::now() < end) done += work();
    const double each = 1e6 / static_cast<double>(done);
    contender.costs[what].push_back((contender.peer.cpu() - before) * each);
    contender.busiest[what].push_back(busiest(contender.peer, threads_before) * each);
}

void measure_pairs(Contender& contender, const Options& options, int qos) {
    std::vector<std::unique_ptr<Subscriber>> subscribers;
    std::vector<std::unique_ptr<Publisher>> publishers;
    for (unsigned i = 0; i < options.pairs; ++i) {
        const auto topic = fmt::format("inbox/subscriber-{}", i);
        subscribers.push_back(std::make_unique<Subscriber>(contender.port, i, topic, qos));
        publishers.push_back(std::make_unique<Publisher>(contender.port, i, topic, qos));
    }
    measure(contender, fmt::format("one to one, QoS {}", qos), options.seconds, [&] {
        for (auto& publisher : publishers) publisher->publish();
        for (auto& subscriber : subscribers) subscriber->take(1);
        for (auto& publisher : publishers) publisher->take_acknowledgement();
        return options.pairs;
    });
}

void measure_room(Contender& contender, const Options& options) {
    std::vector<std::unique_ptr<Subscriber>> members;
    for (unsigned i = 0; i < options.room; ++i)
        members.push_back(std::make_unique<Subscriber>(contender.port, i, "rooms/lobby", 0));
    Publisher publisher(contender.port, 0, "rooms/lobby", 0);
    measure(contender, fmt::format("room of {}, QoS 0", options.room), options.seconds, [&] {
        publisher.publish();
        for (auto& member : members) member->take(1);
        return options.room;
    });
}

/// A client comes, and the client that came 500 logins ago goes.
void measure_logins(Contender& contender, const Options& options) {
    std::vector<int> sockets(500, -1);
    std::uint32_t number = 0;
    measure(contender, "login and loss", options.seconds, [&] {
        int& socket = sockets[number % sockets.size()];
        if (socket >= 0) drop(socket);
        socket = log_in(number % 10'000, contender.port, fmt::format("guest-{}", number % 5'000));
        ++number;
        return 1u;
    });
    for (const int socket : sockets)
        if (socket >= 0) drop(socket);
}

using Contenders = std::vector<std::unique_ptr<Contender>>;

void print(const Contenders& contenders, std::string_view title,
           std::map<std::string, std::vector<double>> Contender::*figures) {
    fmt::print("{:<24}", title);
    for (const auto& [what, costs] : *contenders[0].*figures) fmt::print("{:>22}", what);
    for (const auto& contender : contenders) {
        fmt::print("\n{:<24}", contender->name);
        for (const auto& [what, costs] : *contender.*figures)
            fmt::print("{:>22.2f}", median(costs));
    }
    fmt::print("\n");
}

void run(const Options& options) {
    pin_to(1);
    Contenders contenders;
    const auto enter = [&](const std::string& name, int cpu, const auto& serve) {
        contenders.push_back(std::make_unique<Contender>(name, cpu, serve));
    };
    enter("bare epoll loop", 0, [](std::uint16_t port) { serve_barely(port); });
    for (const auto& binary : options.pulsegate)
        enter(binary, 0,
              [&](std::uint16_t port) { execute_pulsegate(binary, port, options.events); });
    if (options.shards > 1) {
        enter(fmt::format("{} bare loops", options.shards), any_cpu,
              [&](std::uint16_t port) { serve_barely(port, options.shards); });
        for (const auto& binary : options.pulsegate) {
            auto name = fmt::format("{} shards", options.shards);
            if (&binary != &options.pulsegate[0]) name += " of " + binary;
            enter(name, any_cpu, [&](std::uint16_t port) {
                execute_pulsegate(binary, port, options.events, options.shards);
            });
        }
    }
    if (access(options.mosquitto.c_str(), X_OK) == 0)
        enter("mosquitto", 0,
              [&](std::uint16_t port) { execute_mosquitto(options.mosquitto, port); });
    else
        fmt::print("{} is not here: without it\n", options.mosquitto);

    for (int round = 0; round < options.rounds; ++round) {
        for (auto& contender : contenders) measure_pairs(*contender, options, 0);
        for (auto& contender : contenders) measure_pairs(*contender, options, 1);
        for (auto& contender : contenders) measure_room(*contender, options);
        for (auto& contender : contenders) measure_logins(*contender, options);
    }
    print(contenders, "us of CPU, median", &Contender::costs);
    if (options.shards > 1) print(contenders, "of the busiest thread", &Contender::busiest);
    if (options.json.empty()) return;
    Figures figures;
    for (const auto& contender : contenders) {
        for (const auto& [what, costs] : contender->costs) figures[what][contender->name] = costs;
        for (const auto& [what, costs] : contender->busiest)
            figures[what + ", busiest thread"][contender->name] = costs;
    }
    write_json(options.json, figures);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run(parse(argc, argv));
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "message-bench: {}\n", error.what());
        return 1;
    }
}
