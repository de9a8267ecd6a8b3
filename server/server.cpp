#include "server/server.h"

#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <future>
#include <system_error>

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

[[noreturn]] void cannot_listen(const ListenUrl& url, const boost::system::error_code& error) {
    const char* remedy = "choose another with --listen";
    if (error == boost::asio::error::address_in_use)
        remedy = "stop whoever listens there, or choose another port with --listen";
    else if (error == boost::asio::error::access_denied)
        remedy = "ports below 1024 need privileges: choose a higher one with --listen";
    throw ConfigError(fmt::format("listen: {}: {}; {}", url.text(), error.message(), remedy));
}

}  // namespace

Server::Server(const Config& config) : config_(config) {
    if (!config_.events.empty()) {
        try {
            events_ = std::make_unique<EventLog>(config_.events);
        } catch (const std::system_error& error) {
            throw ConfigError(
                fmt::format("events: {}; name a file that can be written, or -", error.what()));
        }
    }
    std::vector<Shard*> all;
    for (unsigned i = 0; i < config_.shards; ++i)
        all.push_back(
            shards_.emplace_back(std::make_unique<Shard>(config_, i, admission_, events_.get()))
                .get());
    for (Shard* shard : all) shard->meet(all);
    admin_ = std::make_unique<Admin>(all, admission_);
    for (const ListenUrl& url : config_.listen) listen(url);
}

Server::~Server() { stop(); }

void Server::listen(const ListenUrl& url) {
    auto endpoint = resolve(url);
    if (!endpoint.address().is_loopback() && !config_.allow_anonymous)
        throw ConfigError(
            fmt::format("listen: {}: reachable from outside, and nobody is asked for a password; "
                        "listen on 127.0.0.1, or say --allow-anonymous",
                        url.text()));
    try {
        if (url.scheme == ListenUrl::Scheme::http) {
            endpoint = admin_->listen(endpoint);
        } else {
            boost::asio::io_context io;
            Listener::check_free(io, endpoint);
            for (auto& shard : shards_) endpoint = shard->listen(endpoint);
        }
    } catch (const boost::system::system_error& error) {
        cannot_listen(url, error.code());
    }
    listening_.push_back({url.scheme, url.host, endpoint.port()});
}

void Server::start() {
    for (auto& shard : shards_) threads_.emplace_back([&shard] { shard->run(); });
    admin_->start();
}

void Server::on_every_shard(void (Shard::*action)()) {
    std::vector<std::future<void>> done;
    for (auto& shard : shards_) {
        auto promise = std::make_shared<std::promise<void>>();
        done.push_back(promise->get_future());
        shard->send(Shard::Task([promise, action](Shard& self) {
            (self.*action)();
            promise->set_value();
        }));
    }
    for (auto& future : done) future.wait();
}

void Server::stop() {
    if (threads_.empty()) return;
    // First everyone goes offline, and those who watch are told; only then are they sent home.
    on_every_shard(&Shard::announce_shutdown);
    on_every_shard(&Shard::stop);
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    admin_->stop();
}

}  // namespace pulsegate
