// How long messages take among many clients that are all connected: Pulsegate beside mosquitto.
//
//     latency-bench [--clients N] [--rate MESSAGES/S] [--seconds S] [--rounds N] [--json FILE]
//                   [--pulsegate PATH]... [--mosquitto PATH]
//
// Random clients write to the inboxes of random others at QoS 1, on schedule, whatever the answers
// do. A message counts from the moment when it was due until its receiver had it. The servers are
// on CPU 0, the clients on CPU 1, and they take turns. Under `chrt -f 10`, what else the machine
// does is not in the tail.

#include <memory>

#include "tests/bench/clients.h"

using namespace pulsegate::bench;

namespace {

struct Options : CommonOptions {
    std::size_t clients = 15'000;
    double rate = 3'000;
};

Options parse(int argc, char** argv) {
    Options options;
    options.seconds = 3;
    options.rounds = 5;
    const KnownOptions known{
        {"--clients", [&](auto text) { options.clients = static_cast<unsigned>(std::atoi(text)); }},
        {"--rate", [&](auto text) { options.rate = std::atof(text); }},
    };
    read_options(argc, argv, options, known);
    return options;
}

Member member(std::size_t number) {
    const auto name = fmt::format("client-{:06}", number);
    return {name, "inbox/" + name};
}

struct Order {
    double rate;
    double seconds;
};

/// In ms.
struct Latency {
    double p50;
    double p99;
};

using MessageDriver = Driver<Order, Latency>;

/// `clients` clients of the broker there, each subscribed to its inbox.
std::unique_ptr<MessageDriver> bring_online(std::uint16_t port, std::size_t count) {
    return std::make_unique<MessageDriver>([port, count] {
        make_sessions(port, count, member);
        const auto clients = std::make_shared<Clients>(
            port, count, false, [](std::size_t number) { return member(number).client; });
        const auto topic = [count, random = std::mt19937(3)]() mutable {
            return member(random() % count).topic;
        };
        const Messages messages{std::string(64, 'x'), topic};
        return [clients, messages](const Order& order) {
            const auto sent = clients->publish_on_schedule(messages, order.rate, order.seconds);
            // Those under way when the last one is acknowledged do not matter; more would be lost.
            if (static_cast<double>(sent.deliveries.size()) <
                0.99 * static_cast<double>(sent.messages))
                fail("messages are missing");
            return Latency{quantile(sent.deliveries, 0.5), quantile(sent.deliveries, 0.99)};
        };
    });
}

struct Contender {
    Contender(std::string title, std::size_t clients,
              const std::function<void(std::uint16_t port)>& serve)
        : name(std::move(title)),
          port(free_port()),
          peer(port, 0, [&] { serve(port); }),
          driver(bring_online(port, clients)) {}
    ~Contender() { remove_files(port); }

    const std::string name;
    const std::uint16_t port;
    Peer peer;
    std::unique_ptr<MessageDriver> driver;
};

void run(const Options& options) {
    pin_to(1);
    std::vector<std::unique_ptr<Contender>> contenders;
    const auto enter = [&](const std::string& name, const auto& serve) {
        contenders.push_back(std::make_unique<Contender>(name, options.clients, serve));
    };
    for (const auto& binary : options.pulsegate)
        enter(binary, [&](std::uint16_t port) { execute_pulsegate(binary, port); });
    enter("mosquitto", [&](std::uint16_t port) { execute_mosquitto(options.mosquitto, port); });

    const Order order{options.rate, options.seconds};
    for (auto& contender : contenders) contender->driver->carry_out(order);  // what grows has grown
    Figures figures;
    fmt::print("{:<24}{:>10}{:>10}\n", "ms, round by round", "p50", "p99");
    for (int round = 0; round < options.rounds; ++round)
        for (auto& contender : contenders) {
            const auto [p50, p99] = contender->driver->carry_out(order);
            figures["p50"][contender->name].push_back(p50);
            figures["p99"][contender->name].push_back(p99);
            fmt::print("{:<24}{:>10.2f}{:>10.2f}\n", contender->name, p50, p99);
        }
    if (!options.json.empty()) write_json(options.json, figures);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run(parse(argc, argv));
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "latency-bench: {}\n", error.what());
        return 1;
    }
}
