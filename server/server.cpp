#include "server/server.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <system_error>
#include <utility>

#include "server/auth/secret_file.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/events/webhook.h"
#include "server/http/chat/chat.h"
#include "server/session/durable/journal.h"
#include "server/shard/data_store.h"
#include "server/shard/shard.h"

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

/// May only one of them listen? Each family has ports of its own, for `::` leaves those of IPv4 to
/// a listener that names them.
bool excludes(const ListenUrl& one, const ListenUrl& other) {
    if (one.port != other.port) return false;
    const auto a = resolve(one).address();
    const auto b = resolve(other).address();
    return a.is_v4() == b.is_v4() && (a == b || a.is_unspecified() || b.is_unspecified());
}

/// Descriptors for all but clients: event loops, listeners, admin and auth-hook connections, files,
/// and a reserve.
std::size_t own_files(const Config& config) {
    const auto& hook = config.authenticator.hook;
    return 384 + config.shards * (4 + config.listen.size()) + (hook.url ? hook.connections : 0);
}

/// A login that waited longer for its check would be over before it is answered.
AuthenticatorSettings authenticator_settings(const Config& config) {
    AuthenticatorSettings settings = config.authenticator;
    settings.longest_wait = config.login_timeout / 2;
    return settings;
}

/// What the admin API asks for; "" without a file.
std::string read_admin_token(const std::string& path) {
    constexpr std::size_t shortest = 16;
    std::string token;
    if (!path.empty()) token.append(read_token("admin-token-file", path));
    if (!path.empty() && token.size() < shortest)
        throw ConfigError(fmt::format(
            "admin-token-file: {}: no token of {} characters or more in its first line; openssl "
            "rand -hex 32 makes one",
            path, shortest));
    return token;
}

/// Users and addresses that were banned before the restart still are.
void keep_out(const KeptOut& kept_out, const std::vector<std::unique_ptr<Shard>>& shards,
              AddressLimits& address_limits) {
    const Millis now = monotonic_now();
    const auto home = [&](std::string_view user) -> Shard& {
        return *shards[home_shard(user, static_cast<unsigned>(shards.size()))];
    };
    std::size_t lost = 0;
    for (const PutBan& ban : kept_out.bans) {
        const Millis until = ban.ends == 0 ? for_good : as_monotonic_time(ban.ends, now);
        const auto address = Address::parse(ban.address);
        lost += !(address ? address_limits.order_ban(*address, now, until, ban.reason)
                          : home(ban.user).client_limits().order_ban(ban.user, ban.client, now,
                                                                     until, ban.reason));
    }
    for (const PutRevocation& each : kept_out.revocations)
        lost += !home(each.user).revocations().revoke(each.user, each.before);
    const auto all = kept_out.bans.size() + kept_out.revocations.size();
    if (all > 0) spdlog::info("{} bans and revocations hold on", all - lost);
    if (lost > 0) spdlog::error("{} bans or revocations are too many, and are not kept", lost);
}

}  // namespace

Server::Server(const Config& config, std::function<void()> store_failed) try
    : config_(config),
      origins_(std::make_shared<const std::vector<std::string>>(config_.websocket_origin)),
      admission_(config.admission, own_files(config)),
      address_limits_(config.address_limits),
      authenticator_(authenticator_settings(config)) {
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
    if (config_.webhook.url) webhook_ = std::make_unique<Webhook>(config_.webhook);
    store_ = std::make_unique<DataStore>(
        DataStore::Settings{.folder = config_.data,
                            .fsync = config_.fsync,
                            .memory_budget = admission_.memory_budget(),
                            .max_bytes = config_.max_data_bytes,
                            .webhook_kinds = config_.webhook.url ? config_.webhook.events : 0,
                            .event_log_bytes = config_.event_log_bytes,
                            .failed = std::move(store_failed)});
    const GatewayParts shared{admission_,     address_limits_, totals_,
                              authenticator_, events_.get(),   *store_};
    std::vector<Shard*> all;
    for (unsigned i = 0; i < config_.shards; ++i)
        all.push_back(shards_.emplace_back(std::make_unique<Shard>(config_, i, shared)).get());
    for (Shard* shard : all) shard->meet(all);
    admin_ = std::make_unique<Admin>(all, shared, webhook_.get(), config_,
                                     read_admin_token(config_.admin_token_file));
    const auto tls = read_certificates();
    for (Shard* shard : all) {
        shard->use(tls);
        shard->use(authenticator_.rules());
        shard->use(authenticator_.password_lines());
    }
    restore();
    for (const ListenUrl& url : config_.listen) listen(url);
    if (config_.demo) show_chat();
} catch (const ConfigError&) {
    throw;
} catch (const std::system_error&) {
    throw;
} catch (const std::runtime_error& error) {
    throw ConfigError(error.what());  // a file that can't be used: the message names it
}

Server::~Server() { stop(); }

/// In a thread that ends, for then the shards may have threads of their own.
void Server::restore() {
    std::vector<Broker*> brokers;
    for (auto& shard : shards_) brokers.push_back(&shard->broker());
    std::async(std::launch::async, [&] {
        keep_out(store_->restore(brokers), shards_, address_limits_);
    }).get();
    malloc_trim(0);  // what was read lay between what stays
}

bool Server::authenticates_clients(const ListenUrl& url) const {
    if (!url.for_clients()) return !config_.admin_token_file.empty();
    const bool by_certificate = url.has_tls() && !config_.tls.client_ca.empty();
    return by_certificate || (authenticator_.required() && !config_.authenticator.allow_anonymous);
}

/// Safe by default: a listener that is reachable from outside must authenticate its clients. Throws
/// ConfigError.
void Server::check_public(const ListenUrl& url) const {
    if (authenticates_clients(url)) return;
    if (!url.for_clients())
        throw ConfigError(
            fmt::format("listen: {}: the admin API would be reachable from outside; name an "
                        "--admin-token-file, or listen on 127.0.0.1",
                        url.text()));
    if (config_.authenticator.allow_anonymous) return;
    throw ConfigError(
        fmt::format("listen: {}: reachable from outside{}, and clients are not authenticated; name "
                    "a --password-file, a --jwt-secret, a --jwt-key or an --auth-hook, listen on "
                    "127.0.0.1 without a proxy, or say --allow-anonymous",
                    url.text(), url.proxy_protocol ? " through the proxy" : ""));
}

/// Then a listener at `::` must leave the clients of IPv4 to it.
bool Server::has_port_for_ipv4(const ListenUrl& url) const {
    return url.port != 0 && std::ranges::any_of(config_.listen, [&](const ListenUrl& other) {
               return other.port == url.port && resolve(other).address().is_v4();
           });
}

void Server::cannot_listen(const ListenUrl& url, const boost::system::error_code& error) const {
    std::string remedy = "choose another with --listen";
    if (error == boost::asio::error::access_denied)
        remedy = "ports below 1024 need privileges: choose a higher one with --listen";
    if (error == boost::asio::error::address_in_use) {
        const auto ours = std::ranges::find_if(
            listening_, [&](const Listening& one) { return excludes(one.url, url); });
        remedy =
            ours == listening_.end()
                ? fmt::format("another process has the port, see: ss -ltnp sport = :{}", url.port)
                : fmt::format("--listen {} has the port", ours->url.text());
        remedy += "; choose another port with --listen";
    }
    throw ConfigError(fmt::format("listen: {}: {}; {}", url.text(), error.message(), remedy));
}

void Server::listen(const ListenUrl& url) {
    auto endpoint = resolve(url);
    // The clients of a proxy come from anywhere, wherever the proxy itself is.
    const bool is_public = !endpoint.address().is_loopback() || url.proxy_protocol;
    if (is_public) check_public(url);
    const bool only_ipv6 = endpoint.address().is_v6() && has_port_for_ipv4(url);
    try {
        if (url.scheme == ListenUrl::Scheme::http) {
            endpoint = admin_->listen(endpoint, only_ipv6);
        } else {
            const auto ipv4 = only_ipv6 ? Listener::Ipv4::left_out : Listener::Ipv4::accepted;
            Listener::check_free(endpoint, ipv4);
            // Through a proxy, pages come under the proxy's name.
            const bool guards_loopback = endpoint.address().is_loopback() &&
                                         !authenticates_clients(url) && !url.proxy_protocol;
            const ListenerOptions options{url.proxy_protocol, url.has_tls(), url.path, origins_,
                                          guards_loopback};
            for (auto& shard : shards_) endpoint = shard->listen(endpoint, ipv4, options);
        }
    } catch (const boost::system::system_error& error) {
        cannot_listen(url, error.code());
    }
    listening_.push_back({url, is_public && !authenticates_clients(url)});
    listening_.back().url.port = endpoint.port();
}

/// The configuration has seen to it that there is a listener for WebSockets.
void Server::show_chat() {
    for (const auto& [url, open_to_anybody] : listening_)
        if (url.is_websocket())
            return admin_->show_chat({.tls = url.has_tls(), .port = url.port, .path = url.path});
}

void Server::start() {
    for (auto& shard : shards_) threads_.emplace_back([&shard] { shard->run(); });
    admin_->start();
    if (webhook_) webhook_->start(store_->ledger());
}

void Server::on_every_shard(const std::function<void(Shard&)>& task) {
    std::vector<std::future<void>> done;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
        const auto promise = std::make_shared<std::promise<void>>();
        done.push_back(promise->get_future());
        shards_[i]->send(Shard::Task([&task, promise](Shard& shard) {
            task(shard);
            promise->set_value();
        }));
    }
    for (auto& each : done) each.wait();
}

/// Waits until the subscribers to presence have been sent that all users are offline, but no longer
/// than stop-wait.
void Server::await_presence_sent() {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(config_.stop_wait);
    while (std::chrono::steady_clock::now() < end) {
        std::atomic<std::size_t> behind = 0;
        on_every_shard([&](Shard& shard) { behind += shard.broker().sessions().behind(); });
        if (behind == 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

/// Null if no listener has TLS.
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
            spdlog::info("certificates reloaded");
        }
    } catch (const std::exception& error) {
        spdlog::error("certificates not reloaded: {}", error.what());
    }
    try {
        authenticator_.reload();
        const auto rules = authenticator_.rules();
        const auto lines = authenticator_.password_lines();
        // Who reads it may rely on it: it is said when nobody reads any more what the rules forbid.
        const bool is_said = authenticator_.required() || rules;
        const auto left = std::make_shared<std::atomic<std::size_t>>(shards_.size());
        const auto judged = [left, is_said] {
            if (--*left == 0 && is_said) spdlog::info("users, keys and rules reloaded");
        };
        for (auto& shard : shards_)
            shard->send(Shard::Task([rules, lines, judged](Shard& each) {
                each.use(rules);
                each.use(lines);
                each.judge(judged);
            }));
    } catch (const std::exception& error) {
        spdlog::error("users, keys and rules not reloaded: {}", error.what());
    }
    try {
        if (webhook_) webhook_->reload();
    } catch (const std::exception& error) {
        spdlog::error("webhook's files not reloaded: {}", error.what());
    }
}

void Server::stop() {
    if (threads_.empty()) return;
    // First all users go offline, and the subscribers to presence are told; only then are clients
    // disconnected.
    authenticator_.stop();
    on_every_shard([](Shard& shard) { shard.announce_shutdown(); });
    await_presence_sent();
    on_every_shard([](Shard& shard) { shard.stop(); });
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    admin_->stop();
    for (auto& shard : shards_) shard->broker().flush_store();
    if (webhook_) webhook_->stop();
    is_stored_ = store_->close();
}

}  // namespace pulsegate
