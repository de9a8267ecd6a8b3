#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <system_error>
#include <type_traits>

#include "server/auth/secret_file.h"
#include "server/log.h"

namespace pulsegate {

namespace {

using boost::asio::ip::tcp;

tcp::endpoint resolve(const ListenUrl& url) {
    boost::asio::io_context io;
    boost::system::error_code error;
    const auto found = tcp::resolver(io).resolve(url.host, std::to_string(url.port),
                                                 tcp::resolver::passive, error);
    if (error || found.empty())
        throw ConfigError(
            fmt::format("listen: {}: no such host; write an address of this machine, "
                        "such as 127.0.0.1 or 0.0.0.0",
                        url.text()));
    return *found.begin();
}

/// Event loops with their listeners, admin connections, those to the auth-hook, files, and some
/// air.
std::size_t own_files(const Config& config) {
    const auto& hook = config.gatekeeper.hook;
    return 256 + config.shards * (4 + config.listen.size()) + (hook.url ? hook.connections : 0);
}

/// The first line of the file; "" without one.
std::string read_token(const std::string& path) {
    if (path.empty()) return "";
    SecretFile file;
    try {
        file = read_secret_file(path);
    } catch (const std::runtime_error& error) {
        throw ConfigError(fmt::format("admin-token-file: {}", error.what()));
    }
    if (!file.warning.empty()) spdlog::warn("admin-token-file: {}", file.warning);
    std::string token = file.text.substr(0, file.text.find('\n'));
    constexpr std::size_t shortest = 16;
    if (token.size() < shortest)
        throw ConfigError(fmt::format(
            "admin-token-file: {}: no token of {} characters or more in its first line; openssl "
            "rand -hex 32 makes one",
            path, shortest));
    return token;
}

[[noreturn]] void cannot_listen(const ListenUrl& url, const boost::system::error_code& error) {
    const char* remedy = "choose another with --listen";
    if (error == boost::asio::error::address_in_use)
        remedy = "stop whoever listens there, or choose another port with --listen";
    else if (error == boost::asio::error::access_denied)
        remedy = "ports below 1024 need privileges: choose a higher one with --listen";
    throw ConfigError(fmt::format("listen: {}: {}; {}", url.text(), error.message(), remedy));
}

}  // namespace

Server::Server(const Config& config) try
    : config_(config),
      admission_(config.admission, own_files(config)),
      visitors_(config.visitors),
      gatekeeper_(config.gatekeeper) {
    if (!config_.events.empty()) {
        try {
            events_ = std::make_unique<LineWriter>(config_.events, [](const std::string& trouble) {
                spdlog::error("events: {}", trouble);
            });
        } catch (const std::system_error& error) {
            throw ConfigError(
                fmt::format("events: {}; name a file that can be written, or -", error.what()));
        }
    }
    std::vector<Shard*> all;
    for (unsigned i = 0; i < config_.shards; ++i)
        all.push_back(shards_
                          .emplace_back(std::make_unique<Shard>(config_, i, admission_, visitors_,
                                                                gatekeeper_, events_.get()))
                          .get());
    for (Shard* shard : all) shard->meet(all);
    admin_ = std::make_unique<Admin>(all, admission_, visitors_, gatekeeper_,
                                     read_token(config_.admin_token_file));
    const auto tls = read_certificates();
    for (Shard* shard : all) {
        shard->use(tls);
        shard->use(gatekeeper_.rules());
    }
    for (const ListenUrl& url : config_.listen) listen(url);
} catch (const ConfigError&) {
    throw;
} catch (const std::system_error&) {
    throw;
} catch (const std::runtime_error& error) {
    throw ConfigError(error.what());  // a file that can't be used: the message names it
}

Server::~Server() { stop(); }

bool Server::asks_everybody(const ListenUrl& url) const {
    if (!url.for_clients()) return !config_.admin_token_file.empty();
    const bool by_certificate = url.has_tls() && !config_.tls.client_ca.empty();
    return by_certificate || (gatekeeper_.asks() && !config_.gatekeeper.allow_anonymous);
}

/// Safe by default: nobody comes in from outside without being asked who they are.
void Server::check_public(const ListenUrl& url) const {
    if (asks_everybody(url)) return;
    if (!url.for_clients())
        throw ConfigError(
            fmt::format("listen: {}: the admin API would be reachable from outside; name an "
                        "--admin-token-file, or listen on 127.0.0.1",
                        url.text()));
    if (config_.gatekeeper.allow_anonymous) return;
    throw ConfigError(
        fmt::format("listen: {}: reachable from outside, and nobody is asked for a password; name "
                    "a --password-file, a --jwt-secret, a --jwt-key or an --auth-hook, listen on "
                    "127.0.0.1, or say --allow-anonymous",
                    url.text()));
}

void Server::listen(const ListenUrl& url) {
    auto endpoint = resolve(url);
    if (!endpoint.address().is_loopback()) check_public(url);
    try {
        if (url.scheme == ListenUrl::Scheme::http) {
            endpoint = admin_->listen(endpoint);
        } else {
            boost::asio::io_context io;
            Listener::check_free(io, endpoint);
            const Door door{url.proxy_protocol, url.has_tls(), url.path};
            for (auto& shard : shards_) endpoint = shard->listen(endpoint, door);
        }
    } catch (const boost::system::system_error& error) {
        cannot_listen(url, error.code());
    }
    listening_.push_back({url, !endpoint.address().is_loopback() && !asks_everybody(url)});
    listening_.back().url.port = endpoint.port();
}

void Server::start() {
    for (auto& shard : shards_) threads_.emplace_back([&shard] { shard->run(); });
    admin_->start();
}

template <class Action>
auto Server::on_every_shard(Action action) {
    using Answer = std::invoke_result_t<Action, Shard&>;
    std::vector<std::future<Answer>> answers;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
        const auto task = std::make_shared<std::packaged_task<Answer(Shard&)>>(action);
        answers.push_back(task->get_future());
        shards_[i]->send(Shard::Task([task](Shard& shard) { (*task)(shard); }));
    }
    for (auto& answer : answers) answer.wait();
    return answers;
}

/// Waits, within reason, until those who watch presence have been told that everybody went.
void Server::let_watchers_hear() {
    constexpr auto within_reason = std::chrono::seconds(3);
    const auto end = std::chrono::steady_clock::now() + within_reason;
    while (std::chrono::steady_clock::now() < end) {
        std::size_t behind = 0;
        for (auto& answer :
             on_every_shard([](Shard& shard) { return shard.broker().catching_up(); }))
            behind += answer.get();
        if (behind == 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

/// Null if no listener needs any.
std::shared_ptr<const Tls> Server::read_certificates() const {
    const bool needed = std::any_of(config_.listen.begin(), config_.listen.end(),
                                    [](const ListenUrl& url) { return url.has_tls(); });
    return needed ? std::make_shared<const Tls>(config_.tls) : nullptr;
}

void Server::reload() {
    if (events_) events_->reopen();
    try {
        if (const auto tls = read_certificates()) {
            for (auto& shard : shards_)
                shard->send(Shard::Task([tls](Shard& each) { each.use(tls); }));
            spdlog::info("certificates read anew");
        }
    } catch (const std::exception& error) {
        spdlog::error("certificates stay as they were: {}", error.what());
    }
    try {
        gatekeeper_.reload();
        const auto rules = gatekeeper_.rules();
        for (auto& shard : shards_)
            shard->send(Shard::Task([rules](Shard& each) { each.use(rules); }));
        if (gatekeeper_.asks() || rules) spdlog::info("users, keys and rules read anew");
    } catch (const std::exception& error) {
        spdlog::error("users, keys and rules stay as they were: {}", error.what());
    }
}

void Server::stop() {
    if (threads_.empty()) return;
    // First everyone goes offline, and those who watch are told; only then are they sent home.
    gatekeeper_.stop();
    on_every_shard([](Shard& shard) { shard.announce_shutdown(); });
    let_watchers_hear();
    on_every_shard([](Shard& shard) { shard.stop(); });
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    admin_->stop();
}

}  // namespace pulsegate
