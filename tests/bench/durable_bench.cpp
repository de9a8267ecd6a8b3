// What messages cost that outlive the broker: Pulsegate with a folder beside mosquitto with its
// persistence as it is by default, which does not wait for the disk.
//
//     durable-bench [--scenarios NAME,...] [--sessions N] [--rate MESSAGES/S]
//                   [--online N] [--online-rate MESSAGES/S] [--folder DIR]
//                   [--fsync always|1s|never] [--seconds S] [--rounds N]
//                   [--pulsegate PATH]... [--mosquitto PATH] [--cluster redis://HOST:PORT]
//     durable-bench --startup N [--folder DIR] [--pulsegate PATH]...
//
// 100 publishers, with messages of 200 bytes at QoS 1, keep a window of 20 unacknowledged. The
// receivers are disconnected: one session (away-one), a random one of many (away-many), or the
// 1,000 members of a room (room). latency: the same as away-many, but on schedule. elision: many
// clients with sessions, all connected, write to one another on schedule, and the disk is to be
// spared. The servers are on CPU 0, the clients on CPU 1, and they take turns.
//
// --cluster: the first Pulsegate besides, with its data in an empty Redis that is there already.
//
// --startup: how long Pulsegate takes to start with so many sessions that are away, each with a
// subscription and a waiting message of 100 bytes, and how much memory.

#include <sstream>

#include "tests/bench/clients.h"

using namespace pulsegate::bench;

namespace {

constexpr std::size_t publishers = 100;
constexpr std::size_t window = 20;
constexpr std::size_t room = 1'000;

struct Options : CommonOptions {
    std::string scenarios = "away-one,away-many,room,latency,elision";
    std::size_t sessions = 100'000;
    std::size_t online = 10'000;
    double rate = 3'000;         ///< of the latency, in messages a second
    double online_rate = 5'000;  ///< of the elision
    std::string folder = "/tmp";
    std::string fsync = "always";
    std::string cluster;
    std::size_t startup = 0;

    bool wants(std::string_view scenario) const {
        return fmt::format(",{},", scenarios).find(fmt::format(",{},", scenario)) !=
               std::string::npos;
    }
};

Options parse(int argc, char** argv) {
    Options options;
    options.seconds = 3;
    options.rounds = 5;
    const auto count = [](const char* text) { return static_cast<std::size_t>(std::atoll(text)); };
    const KnownOptions known{
        {"--scenarios", [&](auto text) { options.scenarios = text; }},
        {"--sessions", [&](auto text) { options.sessions = count(text); }},
        {"--online", [&](auto text) { options.online = count(text); }},
        {"--rate", [&](auto text) { options.rate = std::atof(text); }},
        {"--online-rate", [&](auto text) { options.online_rate = std::atof(text); }},
        {"--folder", [&](auto text) { options.folder = text; }},
        {"--fsync", [&](auto text) { options.fsync = text; }},
        {"--cluster", [&](auto text) { options.cluster = text; }},
        {"--startup", [&](auto text) { options.startup = count(text); }},
    };
    read_options(argc, argv, options, known);
    return options;
}

/// A new folder that ends with this object.
class Folder {
public:
    explicit Folder(const std::string& parent) : path_(parent + "/pulsegate-bench-XXXXXX") {
        if (!mkdtemp(path_.data())) fail("can't make a folder in " + parent);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }

    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// No limit that the benchmark would reach: what is dropped is not measured.
constexpr const char* unlimited =
    "--shards 1 --log-level error --max-message-rate 0 --max-byte-rate 0 --login-rate 0 "
    "--login-wait 60s --max-loop-lag 60s --ban-flaps 0 --memory-budget 64GiB "
    "--persistent-session-bytes 64GiB --persistent-session-quota 100000000 "
    "--max-queued-messages 100000000 --max-queued-bytes 64GiB";

/// `data`: the options that say where it is kept.
void execute_durable(const std::string& binary, std::uint16_t port, std::uint16_t admin,
                     const std::string& data, const std::string& fsync) {
    std::istringstream words(
        fmt::format("{} --listen mqtt://127.0.0.1:{} --listen http://127.0.0.1:{} --fsync {} {}",
                    data, port, admin, fsync, unlimited));
    std::vector<std::string> command{binary};
    for (std::string word; words >> word;) command.push_back(word);
    execute(command);
}

/// The lines of Pulsegate's metrics that begin so.
std::vector<std::string> metrics(std::uint16_t admin, std::string_view name) {
    const int socket = connect_from(0, admin);
    if (socket < 0) fail("the HTTP API does not answer");
    constexpr std::string_view request =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    std::string answer;
    char bytes[16 * 1024];
    while (const auto size = recv(socket, bytes, sizeof bytes, 0)) {
        if (size < 0) fail("the HTTP API does not answer");
        answer.append(bytes, static_cast<std::size_t>(size));
    }
    close(socket);
    std::vector<std::string> found;
    std::istringstream lines(answer);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(name)) found.push_back(line);
    return found;
}

double value_of(const std::string& metric) {
    return std::atof(metric.c_str() + metric.rfind(' ') + 1);
}

/// The sum over all shards.
double metric(std::uint16_t admin, std::string_view name) {
    double sum = 0;
    for (const auto& line : metrics(admin, fmt::format("{}{{", name))) sum += value_of(line);
    return sum;
}

struct Contender {
    /// `admin`: the port for its metrics; 0: none.
    Contender(std::string title, std::uint16_t admin_port,
              const std::function<void(std::uint16_t port)>& serve)
        : name(std::move(title)),
          admin(admin_port),
          port(free_port()),
          peer(port, 0, [&] { serve(port); }) {}
    ~Contender() { remove_files(port); }

    double stored() const { return admin ? metric(admin, "pulsegate_store_messages_total") : 0; }

    const std::string name;
    const std::uint16_t admin;
    const std::uint16_t port;
    Peer peer;
    /// By scenario, and by what was measured: round by round.
    std::map<std::string, std::map<std::string, std::vector<double>>> figures{};
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// Waits until no server has anything left to do: it would count for the next.
void settle(const Contenders& contenders) {
    const auto spent = [&] {
        double sum = 0;
        for (const auto& contender : contenders) sum += contender->peer.cpu();
        return sum;
    };
    for (int i = 0; i < 100; ++i) {
        const double before = spent();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (spent() - before < 0.01) return;
    }
}

/// Plain data: a driver's answer.
struct Figures {
    explicit Figures(const Published& published)
        : messages(static_cast<double>(published.messages)),
          seconds(published.seconds),
          middle(quantile(published.waits, 0.5)),
          most(quantile(published.waits, 0.99)) {}
    Figures() = default;

    double messages = 0;
    double seconds = 0;
    double middle = 0;  ///< ms until a message is acknowledged
    double most = 0;    ///< the same, of 99 in 100
};

/// Notes what `publish` costs the contender.
template <class Publish>
void measure(Contender& contender, const std::string& scenario, Publish publish) {
    const double cpu = contender.peer.cpu();
    const double written = contender.peer.written();
    const double stored = contender.stored();
    const Figures published(publish());
    const double count = published.messages;
    auto& figures = contender.figures[scenario];
    figures["messages/s"].push_back(count / published.seconds);
    figures["us of CPU"].push_back((contender.peer.cpu() - cpu) / count * 1e6);
    figures["bytes written"].push_back((contender.peer.written() - written) / count);
    figures["p50, ms"].push_back(published.middle);
    figures["p99, ms"].push_back(published.most);
    figures["stored, %"].push_back((contender.stored() - stored) / count * 100);
}

std::string publisher(std::size_t number) { return fmt::format("publisher-{}", number); }

/// To disconnected receivers, as fast as the messages are acknowledged.
void measure_away(Contender& contender, const std::string& scenario, const Options& options,
                  const std::function<std::string()>& next_topic) {
    Clients clients(contender.port, publishers, true, publisher);
    measure(contender, scenario, [&] {
        const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
        return clients.publish({std::string(200, 'x'), next_topic}, window,
                               [end] { return Clock::now() < end; });
    });
}

/// To a topic of sessions that are new in each round, and end with what waits for them.
void measure_topic(Contender& contender, const Contenders& all, const std::string& scenario,
                   const Options& options, std::size_t receivers) {
    const auto member = [&](std::size_t number) {
        return Member{fmt::format("{}-{}", scenario, number), scenario};
    };
    make_sessions(contender.port, receivers, member);
    settle(all);
    measure_away(contender, scenario, options, [&] { return scenario; });
    end_sessions(contender.port, receivers, member);
    settle(all);
}

Member away(std::size_t number) {
    return {fmt::format("away-{}", number), fmt::format("away/{:07}", number)};
}

Member online(std::size_t number) {
    return {fmt::format("online-{}", number), fmt::format("online/{:06}", number)};
}

std::function<std::string()> random_topic(const Members& members, std::size_t count) {
    static std::mt19937 random(1);
    return [members, count] { return members(random() % count).topic; };
}

void measure_latency(Contender& contender, const Options& options) {
    Clients clients(contender.port, publishers, true, publisher);
    measure(contender, "latency", [&] {
        return clients.publish_on_schedule(
            {std::string(200, 'x'), random_topic(away, options.sessions)}, options.rate,
            options.seconds);
    });
}

void run_rounds(const Contenders& all, const Options& options) {
    const auto each = [&](std::string_view scenario, const auto& measure_one) {
        if (!options.wants(scenario)) return;
        for (const auto& contender : all) measure_one(*contender);
    };
    if (options.wants("away-many") || options.wants("latency"))
        for (const auto& contender : all) make_sessions(contender->port, options.sessions, away);
    settle(all);
    for (int round = 0; round < options.rounds; ++round) {
        each("away-one",
             [&](auto& contender) { measure_topic(contender, all, "away-one", options, 1); });
        each("away-many", [&](auto& contender) {
            measure_away(contender, "away-many", options, random_topic(away, options.sessions));
            settle(all);
        });
        each("room",
             [&](auto& contender) { measure_topic(contender, all, "room", options, room); });
        each("latency", [&](auto& contender) {
            measure_latency(contender, options);
            settle(all);
        });
    }
}

/// Connected clients write to one another, in messages a second and seconds.
using OnlineDriver = Driver<std::pair<double, double>, Figures>;

std::unique_ptr<OnlineDriver> bring_online(const Contender& contender, std::size_t count) {
    return std::make_unique<OnlineDriver>([port = contender.port, count] {
        const auto clients = std::make_shared<Clients>(
            port, count, false, [](std::size_t number) { return online(number).client; });
        return [clients, count](const std::pair<double, double>& order) {
            return Figures(
                clients->publish_on_schedule({std::string(200, 'x'), random_topic(online, count)},
                                             order.first, order.second, Waiting::by_clock));
        };
    });
}

/// The last contender, which is in memory only, is the measure for the others.
void run_elision(const Contenders& all, const Options& options) {
    std::vector<std::unique_ptr<OnlineDriver>> drivers;
    for (const auto& contender : all) {
        make_sessions(contender->port, options.online, online);
        drivers.push_back(bring_online(*contender, options.online));
    }
    for (int round = 0; round < options.rounds; ++round) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            settle(all);
            measure(*all[i], "elision", [&] {
                return drivers[i]->carry_out({options.online_rate, options.seconds});
            });
        }
        const double in_memory = all.back()->figures["elision"]["us of CPU"].back();
        for (const auto& contender : all) {
            auto& figures = contender->figures["elision"];
            figures["of in memory"].push_back(figures["us of CPU"].back() / in_memory);
        }
    }
}

void print_figures(const Contenders& contenders) {
    for (const auto& [scenario, columns] : contenders[0]->figures) {
        fmt::print("\n{:<40}", scenario);
        for (const auto& [what, values] : columns) fmt::print("{:>15}", what);
        for (const auto& contender : contenders) {
            const auto found = contender->figures.find(scenario);
            if (found == contender->figures.end()) continue;
            fmt::print("\n{:<40}", contender->name);
            for (const auto& [what, values] : found->second)
                fmt::print("{:>15.2f}", median(values));
        }
        fmt::print("\n");
    }
}

/// What was dropped was not stored: the figures are not true then.
void print_drops(const Contenders& contenders) {
    for (const auto& contender : contenders) {
        if (!contender->admin) continue;
        for (const auto* name : {"pulsegate_messages_dropped_total{", "pulsegate_limit_hits_total{",
                                 "pulsegate_sessions_over_quota_total{"})
            for (const auto& line : metrics(contender->admin, name))
                // The benchmark ends sessions itself.
                if (value_of(line) != 0 && line.find("session_ended") == std::string::npos)
                    fmt::print("\nNOT WHAT WAS TO BE MEASURED: {}: {}", contender->name, line);
    }
    fmt::print("\n");
}

void run(const Options& options) {
    Folder folder(options.folder);
    Contenders contenders;
    const auto enter_pulsegate = [&](const std::string& binary, const std::string& name,
                                     const std::string& data) {
        const auto admin = free_port();
        contenders.push_back(std::make_unique<Contender>(name, admin, [&](std::uint16_t port) {
            execute_durable(binary, port, admin, data, options.fsync);
        }));
    };
    for (const auto& binary : options.pulsegate)
        enter_pulsegate(binary, binary,
                        fmt::format("--data {}/{}", folder.path(), contenders.size()));
    if (!options.cluster.empty())
        enter_pulsegate(
            options.pulsegate.at(0), options.pulsegate.at(0) + " --cluster",
            fmt::format("--cluster {} --link-listen 127.0.0.1:{}", options.cluster, free_port()));
    if (access(options.mosquitto.c_str(), X_OK) == 0)
        contenders.push_back(std::make_unique<Contender>("mosquitto", 0, [&](std::uint16_t port) {
            execute_mosquitto(options.mosquitto, port, folder.path());
        }));
    else
        fmt::print("{} is not here: without it\n", options.mosquitto);
    run_rounds(contenders, options);
    if (options.wants("elision")) {
        enter_pulsegate(options.pulsegate[0], options.pulsegate[0] + " --data none", "--data none");
        run_elision(contenders, options);
    }
    fmt::print("medians of {} rounds of {} s, fsync = {}\n", options.rounds, options.seconds,
               options.fsync);
    print_figures(contenders);
    print_drops(contenders);
}

/// Sessions that are away, and a message for each.
void fill(std::uint16_t port, std::size_t sessions) {
    make_sessions(port, sessions, away);
    Clients clients(port, publishers, true, publisher);
    std::size_t next = 0;
    clients.publish({std::string(100, 'x'), [&] { return away(next++).topic; }}, window,
                    [&] { return next < sessions; });
}

void run_startup(const std::string& binary, const Options& options) {
    Folder folder(options.folder);
    const auto port = free_port();
    const auto admin = free_port();
    const auto seconds_since = [](Clock::time_point begin) {
        return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    const auto start = [&](std::string_view after) {
        const auto begin = Clock::now();
        auto peer = std::make_unique<Peer>(port, 0, [&] {
            execute_durable(binary, port, admin, "--data " + folder.path(), options.fsync);
        });
        const double seconds = seconds_since(begin);
        fmt::print(
            "{}: serves after {:.2f} s, {:.0f} MB resident, {:.0f} MB at most, {} sessions "
            "away, {} messages wait\n",
            after, seconds, peer->resident() / 1e6, peer->most_resident() / 1e6,
            metric(admin, "pulsegate_sessions_disconnected"),
            metric(admin, "pulsegate_messages_queued"));
        return peer;
    };
    auto peer = start("empty");
    auto begin = Clock::now();
    fill(port, options.startup);
    fmt::print("filled in {:.0f} s: {:.0f} MB resident\n", seconds_since(begin),
               peer->resident() / 1e6);
    begin = Clock::now();
    peer->end(SIGTERM);
    fmt::print(
        "ended in {:.2f} s: {:.0f} MB on disk\n", seconds_since(begin),
        static_cast<double>(std::filesystem::file_size(folder.path() + "/pulsegate.db")) / 1e6);
    peer = start("after SIGTERM");
    peer->end(SIGKILL);
    peer = start("after SIGKILL");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const Options options = parse(argc, argv);
        pin_to(1);
        if (options.startup == 0)
            run(options);
        else
            for (const auto& binary : options.pulsegate) run_startup(binary, options);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "durable-bench: {}\n", error.what());
        return 1;
    }
}
