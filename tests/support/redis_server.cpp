#include "tests/support/redis_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace pulsegate {

namespace {

/// Both streams of the new process go to `output`. It dies with the thread that has started it.
pid_t start_process(std::vector<std::string> words, int output) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t process = ::fork();
    if (process != 0) return process;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
}

/// It is its own CA.
void make_certificate(const std::string& folder) {
    const std::string log = folder + "/openssl.log";
    const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const pid_t openssl = start_process(
        {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
         "-keyout", folder + "/redis.key", "-out", folder + "/redis.pem"},
        output);
    ::close(output);
    int status = 0;
    if (::waitpid(openssl, &status, 0) != openssl || status != 0)
        throw std::runtime_error("openssl makes no certificate; see " + log);
}

}  // namespace

RedisServer::RedisServer(std::vector<std::string> settings, Kind kind)
    : settings_(std::move(settings)), kind_(kind) {
    std::filesystem::create_directories(folder());
    if (kind_ == Kind::tls) make_certificate(folder());
    if (kind_ == Kind::sentinel) write_sentinel_settings();
    start();
}

RedisServer::~RedisServer() { kill(); }

RedisTarget RedisServer::target() const {
    RedisTarget target{.addresses = {{"127.0.0.1", port()}}};
    target.tls = kind_ == Kind::tls;
    if (target.tls) target.ca_file = folder() + "/redis.pem";
    return target;
}

/// A Sentinel has all of its settings in a file, to which it writes.
void RedisServer::write_sentinel_settings() const {
    std::string lines =
        "port " + std::to_string(port()) + "\nbind 127.0.0.1\ndir " + folder() + "\n";
    for (std::size_t i = 0; i + 1 < settings_.size(); i += 2)
        lines += settings_[i].substr(2) + " " + settings_[i + 1] + "\n";
    folder_.write("sentinel.conf", lines);
}

std::vector<std::string> RedisServer::command_line() const {
    if (kind_ == Kind::sentinel)
        return {"redis-server", folder_.path("sentinel.conf"), "--sentinel"};
    const std::string number = std::to_string(port());
    std::vector<std::string> words = {"redis-server", "--bind",        "127.0.0.1", "--dir",
                                      folder(),       "--save",        "",          "--appendonly",
                                      "yes",          "--appendfsync", "always"};
    if (kind_ == Kind::tls)
        words.insert(words.end(),
                     {"--port", "0", "--tls-port", number, "--tls-auth-clients", "no",
                      "--tls-cert-file", folder() + "/redis.pem", "--tls-key-file",
                      folder() + "/redis.key", "--tls-ca-cert-file", folder() + "/redis.pem"});
    else
        words.insert(words.end(), {"--port", number});
    words.insert(words.end(), settings_.begin(), settings_.end());
    return words;
}

void RedisServer::start() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process_ = start_process(command_line(), ends[1]);
    ::close(ends[1]);
    await_ready(ends[0]);
}

void RedisServer::await_ready(int output) {
    std::string said;
    std::array<char, 4096> some;
    const char* const last = kind_ == Kind::sentinel ? "Sentinel ID is" : "Ready to accept";
    const auto is_ready = [&] { return said.find(last) != std::string::npos; };
    while (!is_ready()) {
        const auto count = ::read(output, some.data(), some.size());
        if (count <= 0) throw std::runtime_error("redis-server does not start: " + said);
        said.append(some.data(), static_cast<std::size_t>(count));
    }
    log_ = std::thread([output] {
        std::array<char, 4096> more;
        while (::read(output, more.data(), more.size()) > 0) {
        }
        ::close(output);
    });
}

void RedisServer::kill() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
    log_.join();
}

void RedisServer::stop() {
    ::kill(process_, SIGSTOP);
    ::waitpid(process_, nullptr, WUNTRACED);
}

void RedisServer::go_on() { ::kill(process_, SIGCONT); }

}  // namespace pulsegate
