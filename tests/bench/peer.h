#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace pulsegate::bench {

// What the benchmarks against other brokers share: a broker in a process of its own, pinned to a
// CPU, and what the kernel says about its cost.

inline constexpr int any_cpu = -1;

inline void pin_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; ++i)
        if (cpu == any_cpu || cpu == i) CPU_SET(i, &set);
    sched_setaffinity(0, sizeof set, &set);
}

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }

/// What every benchmark against other brokers can be told.
struct CommonOptions {
    double seconds = 1;
    int rounds = 7;
    std::vector<std::string> pulsegate{};
    std::string mosquitto = "/usr/sbin/mosquitto";
    std::string json{};   ///< the file for all figures; "": none
    bool events = false;  ///< Pulsegate writes each change of presence to a file
};

/// What was measured, by kind and server, round by round.
using Figures = std::map<std::string, std::map<std::string, std::vector<double>>>;

/// {"what":{"server":[1.5,...],...},...}; names have no characters to escape.
inline void write_json(const std::string& path, const Figures& figures) {
    std::ofstream out(path);
    const char* next_what = "{";
    for (const auto& [what, measured] : figures) {
        out << std::exchange(next_what, ",") << '"' << what << "\":";
        const char* next_whom = "{";
        for (const auto& [whom, values] : measured) {
            out << std::exchange(next_whom, ",") << '"' << whom << "\":[";
            for (std::size_t i = 0; i < values.size(); ++i) out << (i ? "," : "") << values[i];
            out << ']';
        }
        out << '}';
    }
    out << "}\n";
}

/// What to do with the text behind each option.
using KnownOptions = std::map<std::string_view, std::function<void(const char*)>>;

/// Reads "--name value" pairs: the common options, and those that the benchmark knows itself.
inline void read_options(int argc, char** argv, CommonOptions& common, KnownOptions known) {
    known.insert({
        {"--seconds", [&](auto text) { common.seconds = std::atof(text); }},
        {"--rounds", [&](auto text) { common.rounds = std::atoi(text); }},
        {"--pulsegate", [&](auto text) { common.pulsegate.emplace_back(text); }},
        {"--mosquitto", [&](auto text) { common.mosquitto = text; }},
        {"--json", [&](auto text) { common.json = text; }},
        {"--events", [&](auto text) { common.events = std::string_view(text) == "on"; }},
    });
    for (int i = 1; i < argc; i += 2) {
        const auto found = known.find(argv[i]);
        if (found == known.end() || i + 1 == argc) fail(fmt::format("what is {}?", argv[i]));
        found->second(argv[i + 1]);
    }
    if (common.pulsegate.empty()) common.pulsegate.emplace_back("build/pulsegate");
}

inline sockaddr_in loopback(std::uint32_t host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(0x7F000000u | host);
    return address;
}

/// Connects from 127.0.(1 + from / 250).(1 + from % 250): one address has too few ports for all.
/// Negative if refused.
inline int connect_from(std::uint32_t from, std::uint16_t port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) fail("no more sockets: raise the limit on open files (ulimit -n)");
    const int on = 1;
    setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const auto own = loopback((1 + from / 250) << 8 | (1 + from % 250), 0);
    const auto peer = loopback(1, port);
    if (bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) < 0 ||
        connect(socket, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) < 0) {
        close(socket);
        return -1;
    }
    return socket;
}

/// Closes with a reset, so that no port stays behind in TIME_WAIT.
inline void drop(int socket) {
    const linger at_once{1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(socket);
}

inline std::uint16_t free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto address = loopback(1, 0);
    socklen_t size = sizeof address;
    if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) < 0) fail("no free port");
    getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    close(socket);
    return ntohs(address.sin_port);
}

/// A string as MQTT writes it.
inline std::string text(std::string_view value) {
    std::string bytes{static_cast<char>(value.size() >> 8), static_cast<char>(value.size())};
    return bytes.append(value);
}

inline std::string packet(char first, std::string_view body) {
    std::string bytes{first};
    auto left = body.size();
    for (; left > 127; left /= 128) bytes += static_cast<char>(left % 128 | 128);
    return (bytes += static_cast<char>(left)).append(body);
}

/// An MQTT 3.1.1 CONNECT with a keepalive of ten minutes.
inline std::string connect_packet(std::string_view client, bool clean = true) {
    std::string body("\0\4MQTT\4\0\2\x58", 10);
    if (clean) body[7] = 2;
    return packet('\x10', body + text(client));
}

/// A SUBSCRIBE to one topic.
inline std::string subscribe_packet(std::string_view topic, int qos) {
    return packet('\x82', std::string("\0\1", 2) + text(topic) + static_cast<char>(qos));
}

/// Reads exactly `size` bytes from a blocking socket.
inline std::string read_exactly(int socket, std::size_t size) {
    std::string bytes(size, '\0');
    if (recv(socket, bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
        fail("the peer closed a connection");
    return bytes;
}

/// Logs a client in.
inline int log_in(std::uint32_t from, std::uint16_t port, std::string_view client,
                  bool clean = true) {
    const int socket = connect_from(from, port);
    if (socket < 0) fail("connection refused");
    const auto connect = connect_packet(client, clean);
    send(socket, connect.data(), connect.size(), MSG_NOSIGNAL);
    if (read_exactly(socket, 4)[3] != 0) fail("login refused");
    return socket;
}

/// Does the broker let clients in?
inline bool takes_logins(std::uint16_t port) {
    const int socket = connect_from(0, port);
    if (socket < 0) return false;
    const auto connect = connect_packet("probe");
    send(socket, connect.data(), connect.size(), MSG_NOSIGNAL);
    char answer[4];
    const bool is_let_in = recv(socket, answer, sizeof answer, MSG_WAITALL) == 4 && answer[3] == 0;
    drop(socket);
    return is_let_in;
}

/// A broker in its own process, which ends with this object. The process may start others, which
/// count as well.
class Peer {
public:
    /// Runs `serve` in a child that is pinned to `cpu`, and waits until it takes connections.
    Peer(std::uint16_t port, int cpu, const std::function<void()>& serve) : pid_(fork()) {
        if (pid_ < 0) fail("fork failed");
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            setpgid(0, 0);
            pin_to(cpu);
            serve();
            _exit(127);
        }
        for (int i = 0; i < 12'000; ++i) {  // two minutes: what was stored is read first
            if (takes_logins(port)) return;
            if (waitpid(pid_, nullptr, WNOHANG) == pid_) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        fail("the peer does not serve");
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer() { end(SIGKILL); }

    /// Sends it a signal and waits for its end.
    void end(int signal) {
        if (pid_ == 0) return;
        kill(-pid_, signal);
        waitpid(std::exchange(pid_, 0), nullptr, 0);
    }

    /// What its threads have spent on a CPU, in the kernel and outside, in seconds.
    double cpu() const {
        double sum = 0;
        for (const auto& [thread, spent] : threads()) sum += spent;
        return sum;
    }

    /// The same of each thread.
    std::map<std::string, double> threads() const {
        std::map<std::string, double> seconds;
        for (const auto& process : std::filesystem::directory_iterator("/proc")) {
            const pid_t pid = std::atoi(process.path().filename().c_str());
            if (pid == 0 || getpgid(pid) != pid_) continue;
            for (const auto& task : std::filesystem::directory_iterator(process.path() / "task")) {
                double nanoseconds = 0;
                std::ifstream(task.path() / "schedstat") >> nanoseconds;
                seconds[task.path().filename()] = nanoseconds / 1e9;
            }
        }
        return seconds;
    }

    /// Its own memory in bytes: no pages of files.
    double memory() const { return read_number("status", "RssAnon:") * 1024; }
    /// Its memory as it is, and the most that it ever was, in bytes.
    double resident() const { return read_number("status", "VmRSS:") * 1024; }
    double most_resident() const { return read_number("status", "VmHWM:") * 1024; }

    pid_t pid() const { return pid_; }

    /// Bytes that it had written to disk.
    double written() const { return read_number("io", "write_bytes:"); }

private:
    /// The number behind a word in a file of /proc.
    double read_number(std::string_view file, std::string_view name) const {
        std::ifstream in(fmt::format("/proc/{}/{}", pid_, file));
        double number = 0;
        for (std::string word; in >> word;)
            if (word == name) return in >> number, number;
        return 0;
    }

    pid_t pid_;
};

/// Counts the system calls of a process with perf, which needs the right to trace it.
class SyscallCount {
public:
    explicit SyscallCount(pid_t process) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) fail("pipe failed");
        pid_ = fork();
        if (pid_ == 0) {
            dup2(ends[1], STDERR_FILENO);
            const auto target = std::to_string(process);
            execlp("perf", "perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p",
                   target.c_str(), nullptr);
            _exit(127);
        }
        close(ends[1]);
        end_ = ends[0];
        std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until it counts
    }
    SyscallCount(const SyscallCount&) = delete;
    SyscallCount& operator=(const SyscallCount&) = delete;
    ~SyscallCount() { close(end_); }

    /// How many there were; to be called once.
    double finish() const {
        kill(pid_, SIGINT);
        char said[1024];
        std::string all;
        for (ssize_t size; (size = read(end_, said, sizeof said)) > 0;)
            all.append(said, static_cast<std::size_t>(size));
        waitpid(pid_, nullptr, 0);
        if (all.empty() || std::isdigit(static_cast<unsigned char>(all[0])) == 0)
            fail("perf can't count system calls: " + all);
        return std::atof(all.c_str());
    }

private:
    int end_ = -1;
    pid_t pid_ = -1;
};

/// The clients of one peer, in a process of their own: each has its own limit on open files, so all
/// peers keep their clients while the others are measured. `Order` and `Answer` are plain data.
template <class Order, class Answer>
class Driver {
public:
    using Obey = std::function<Answer(const Order&)>;

    /// `log_in` logs them in and returns the client that obeys.
    explicit Driver(const std::function<Obey()>& log_in) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) fail("socketpair failed");
        end_ = ends[0];
        pid_ = fork();
        if (pid_ == 0) serve(ends[1], log_in);
        close(ends[1]);
        char ready = 0;
        if (recv(end_, &ready, 1, 0) != 1) fail("not all clients could log in");
    }
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;
    ~Driver() {
        close(end_);
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }

    Answer carry_out(const Order& order) const {
        send(end_, &order, sizeof order, MSG_NOSIGNAL);
        Answer answer;
        if (recv(end_, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
            fail("a driver gave up");
        return answer;
    }

private:
    [[noreturn]] static void serve(int end, const std::function<Obey()>& log_in) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            const Obey obey = log_in();
            send(end, "", 1, MSG_NOSIGNAL);
            Order order;
            while (recv(end, &order, sizeof order, MSG_WAITALL) == sizeof order) {
                const Answer answer = obey(order);
                send(end, &answer, sizeof answer, MSG_NOSIGNAL);
            }
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}\n", error.what());
        }
        _exit(1);
    }

    int end_ = -1;
    pid_t pid_ = -1;
};

/// For `Peer`: replaces the child by a program that says nothing.
inline void execute(const std::vector<std::string>& command) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    std::vector<char*> arguments;
    for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
}

inline std::string events_file(std::uint16_t port) {
    return fmt::format("/tmp/pulsegate-bench-events-{}", port);
}

inline void execute_pulsegate(const std::string& binary, std::uint16_t port, bool events = false,
                              unsigned shards = 1) {
    std::vector<std::string> command{binary,
                                     "--listen",
                                     fmt::format("mqtt://127.0.0.1:{}", port),
                                     "--listen",
                                     "http://127.0.0.1:0",
                                     "--data",
                                     "none",
                                     "--shards",
                                     std::to_string(shards),
                                     "--log-level",
                                     "error",
                                     "--max-message-rate",
                                     "0",
                                     "--max-byte-rate",
                                     "0"};
    if (events) command.insert(command.end(), {"--events", events_file(port)});
    execute(command);
}

/// Debian's mosquitto with nothing to slow it down: no log, no limits, and persistence only if it
/// gets a folder; then as it is by default.
inline void execute_mosquitto(const std::string& binary, std::uint16_t port,
                              const std::string& folder = {}) {
    const auto file = fmt::format("/tmp/pulsegate-bench-mosquitto-{}.conf", port);
    const auto persistence =
        folder.empty() ? "persistence false"
                       : fmt::format("persistence true\npersistence_location {}/", folder);
    // Else it would change from root to a user of its own without the right to the folder.
    std::ofstream(file) << fmt::format(
        "user root\nlistener {} 127.0.0.1\nallow_anonymous true\nlog_dest none\n{}\n"
        "max_connections -1\nmax_inflight_messages 256\nmax_queued_messages 0\n",
        port, persistence);
    execute({binary, "-c", file});
}

/// What the brokers of this port have left.
inline void remove_files(std::uint16_t port) {
    std::filesystem::remove(fmt::format("/tmp/pulsegate-bench-mosquitto-{}.conf", port));
    std::filesystem::remove(events_file(port));
}

/// The value that `part` of them do not exceed.
inline double quantile(std::vector<double> values, double part) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * part + 0.5)];
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace pulsegate::bench
