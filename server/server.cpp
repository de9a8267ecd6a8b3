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

#include "server/base/log.h"
#include "server/base/text/url.h"
#include "server/cluster/link/carried_request.h"
#include "server/cluster/membership.h"
#include "server/edge/link_exchange.h"
#include "server/events/webhook.h"
#include "server/http/chat/chat.h"
#include "server/http/serving/http_connections.h"
#include "server/session/durable/journal.h"
#include "server/session/terms/homes.h"
#include "server/shard/data_store.h"
#include "server/shard/item_weight.h"
#include "server/shard/shard.h"
#include "server/start/listen_address.h"

namespace pulsegate {

namespace {

using boost::asio::ip::tcp;

/// The descriptors that are not for clients: event loops, listeners, admin and auth-hook
/// connections, files, and a reserve.
std::size_t own_files(const Config& config) {
    // A request that is carried has a connection, and both ends of a socket pair.
    constexpr int of_link = most_unidentified_links + 3 * most_carried_requests;
    const auto& hook = config.authenticator.hook;
    return 384 + config.shards * (4 + config.listen.size()) + (hook.url ? hook.connections : 0) +
           (config.cluster.redis ? of_link : 0);
}

/// If a login waited longer for its check, it would time out before its answer.
AuthenticatorSettings authenticator_settings(const Config& config) {
    AuthenticatorSettings settings = config.authenticator;
    settings.longest_wait = config.login_timeout / 2;
    return settings;
}

/// Has a shard so much mail that clients of other nodes must wait?
bool is_behind(const std::unique_ptr<Shard>& shard) {
    return shard->mailbox_weight() > most_weight_waiting;
}

/// Users and addresses that were banned before the restart are still banned.
void keep_out(const KeptOut& kept_out, const std::vector<std::unique_ptr<Shard>>& shards,
              AddressLimits& address_limits) {
    const Millis now = monotonic_now();
    const auto home = [&](std::string_view user) -> Shard& {
        return *shards[Homes(shards.size()).shard_of(user)];
    };
    std::size_t lost = 0;
    for (const PutBan& ban : kept_out.bans) {
        const Millis until = ban.ends == 0 ? for_good : as_monotonic_time(ban.ends, now);
        const auto address = Address::parse(ban.address);
        lost += !(address ? address_limits.order_ban(*address, now, until, ban.reason)
                          : home(ban.user).client_limits().order_ban(ban.user, ban.client, now,
                                                                     until, ban.reason));
    }
    for (const PutRevocation& each : kept_out.revocations) {
        // Anywhere in its second. Below 0: before the start.
        const Millis given = now + (each.before * 1000 + 999 - wall_now());
        lost += !home(each.user).revocations().revoke(each.user, each.before, std::min(now, given));
    }
    const auto all = kept_out.bans.size() + kept_out.revocations.size();
    if (all > 0) spdlog::info("{} bans and revocations remain in force", all - lost);
    if (lost > 0) spdlog::error("{} bans or revocations exceed the limit, and are dropped", lost);
}

}  // namespace

Server::Server(const Config& config, ServerHost host) try
    : config_(config),
      stop_wait_(config_.stop_wait),
      origins_(std::make_shared<const std::vector<std::string>>(config_.websocket_origin)),
      inherited_(std::move(host.inheritance.sockets)),
      admission_(config.admission, own_files(config)),
      address_limits_(config.address_limits),
      authenticator_(authenticator_settings(config)),
      cluster_(host.cluster),
      links_(std::make_shared<LinkExchange>(
          host.is_edge ? LinkExchange::Side::edge : LinkExchange::Side::home,
          LinkExchange::Shards{
              .count = config_.shards,
              .deliver = [this](unsigned shard,
                                LinkMail mail) { shards_[shard]->send(std::move(mail)); },
              .are_behind = [this] { return std::ranges::any_of(shards_, is_behind); }})) {
    drain_.use(config_.drain);
    if (!config_.events.empty()) {
        try {
            events_ = std::make_unique<LineWriter>(config_.events, [](const std::string& trouble) {
                spdlog::error("events: {}", trouble);
            });
        } catch (const std::system_error& error) {
            throw ConfigError(fmt::format("events: {}; name a writable file, or -", error.what()));
        }
    }
    if (config_.webhook.url) webhook_ = std::make_unique<Webhook>(config_.webhook);
    host.api.certificate_ends = [this] { return certificates_.ends(); };
    store_ = std::make_unique<DataStore>(
        DataStore::Settings{.folder = config_.data,
                            .rows = host.cluster,
                            .fsync = config_.fsync,
                            .memory_budget = admission_.memory_budget(),
                            .max_bytes = config_.max_data_bytes,
                            .webhook_kinds = config_.webhook.url ? config_.webhook.events : 0,
                            .event_log_bytes = config_.event_log_bytes,
                            .shards = config_.shards,
                            .failed = std::move(host.store_failed)},
        std::move(host.inheritance.lock));
    const GatewayParts shared{admission_,    address_limits_, totals_, authenticator_,
                              events_.get(), *store_,         drain_,  host.cluster};
    std::vector<Shard*> all;
    for (unsigned i = 0; i < config_.shards; ++i) {
        Config& own = *of_shards_.emplace_back(std::make_unique<Config>(config_));
        all.push_back(shards_.emplace_back(std::make_unique<Shard>(own, i, shared)).get());
    }
    for (Shard* shard : all) {
        shard->meet(all);
        if (host.is_edge)
            shard->serve_as_edge(*links_);
        else
            shard->serve_edges(*links_);
    }
    admin_ = std::make_unique<Admin>(
        all, shared, webhook_.get(), config_,
        read_admin_tokens(config_.admin_token_file, config_.admin_tokens_file),
        std::move(host.api));
    if (admin_has_tls(config_)) admin_->use(admin_tls_sessions(config_));
    tls_ = read_certificates(config_, host.inheritance);
    watch_certificates(tls_.get());
    for (Shard* shard : all) {
        shard->use(tls_);
        shard->use(authenticator_.rules());
        shard->use(authenticator_.password_lines());
        shard->guard_by(host.guard);
    }
    restore(host.inheritance);
    for (const ListenUrl& url : config_.listen) listen(url);
    check_inherited();
    listen_locally();
    // Sockets that no listener uses, such as those of former shards, must not accept connections.
    inherited_.reset();
    if (config_.demo) show_chat();
} catch (const ConfigError&) {
    throw;
} catch (const std::system_error&) {
    throw;
} catch (const std::runtime_error& error) {
    throw ConfigError(error.what());  // the message names the file that can't be used
}

Server::~Server() { stop(); }

/// Restores on a thread that ends, so that the shards can be handed to threads of their own.
void Server::restore(const Inheritance& inheritance) {
    std::vector<Restore*> restored;
    for (auto& shard : shards_) restored.push_back(&shard->broker().restore());
    std::async(std::launch::async, [&] {
        keep_out(store_->restore(restored), shards_, address_limits_);
        if (inheritance.gateway) adopt(*inheritance.gateway);
    }).get();
    malloc_trim(0);  // the rows that were read lay between what stays
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
    const auto endpoint = resolve(url);
    check_public(config_, url, endpoint);
    const bool is_open = is_public(url, endpoint) && !authenticates_clients(config_, url);
    listening_.push_back({url, is_open});
    try {
        const auto real = url.for_clients() ? listen_for_clients(url, endpoint)
                                            : listen_for_admins(url, endpoint);
        listening_.back().url.port = real.port();
    } catch (const boost::system::system_error& error) {
        listening_.pop_back();
        cannot_listen(url, error.code());
    }
}

tcp::endpoint Server::listen_for_admins(const ListenUrl& url, const tcp::endpoint& endpoint) {
    if (auto inherited = inherited_->take(url.text(), endpoint, 1); !inherited.empty())
        return admin_->listen(endpoint, std::move(inherited.front()), url.has_tls());
    return admin_->listen(endpoint, leaves_out_ipv4(url, endpoint), url.has_tls());
}

tcp::endpoint Server::listen_for_clients(const ListenUrl& url, const tcp::endpoint& endpoint) {
    // Behind a proxy, pages use the proxy's name.
    const bool guards_loopback = endpoint.address().is_loopback() &&
                                 !authenticates_clients(config_, url) && !url.proxy_protocol;
    const ListenerOptions options{url.proxy_protocol, url.has_tls(), url.path, origins_,
                                  guards_loopback};
    auto real = endpoint;
    if (auto inherited = inherited_->take(url.text(), endpoint, shards_.size());
        !inherited.empty()) {
        for (std::size_t i = 0; i < shards_.size(); ++i)
            real = shards_[i]->listen(endpoint, std::move(inherited[i]), options);
        return real;
    }
    const auto ipv4 =
        leaves_out_ipv4(url, endpoint) ? Listener::Ipv4::left_out : Listener::Ipv4::accepted;
    Listener::check_free(endpoint, ipv4);
    for (auto& shard : shards_) real = shard->listen(real, ipv4, options);
    return real;
}

bool Server::leaves_out_ipv4(const ListenUrl& url, const tcp::endpoint& endpoint) const {
    return endpoint.address().is_v6() && has_port_for_ipv4(url, config_.listen);
}

/// A socket without a listener would accept connections and never answer them.
void Server::check_inherited() const {
    for (const auto& endpoint : inherited_->unused())
        throw ConfigError(
            fmt::format("listen: systemd passes a socket at {}:{} that no listener names; add "
                        "--listen mqtt://{}:{}, or remove it from the socket unit",
                        bracketed(endpoint.address().to_string()), endpoint.port(),
                        bracketed(endpoint.address().to_string()), endpoint.port()));
}

/// Returns "" if there is no Unix socket.
std::string Server::local_path() const {
    if (!config_.admin_socket.empty())
        return config_.admin_socket == "none" ? "" : config_.admin_socket;
    return config_.data.empty() ? "" : config_.data + "/admin.sock";
}

/// Not every file system has sockets, so it is no error if the default one can't be made.
void Server::listen_locally() {
    const bool is_default = config_.admin_socket.empty();
    const std::string path = local_path();
    if (path.empty()) return;
    if (auto inherited = inherited_->take(local_url(), {}, 1); !inherited.empty())
        return admin_->listen_locally(path, std::move(inherited.front()));
    try {
        admin_->listen_locally(path);
    } catch (const boost::system::system_error& error) {
        const auto trouble =
            fmt::format("admin-socket: {}: {}; name a file in a writable folder, or none", path,
                        error.code().message());
        if (!is_default) throw ConfigError(trouble);
        spdlog::warn("{}", trouble);
    }
}

/// The configuration guarantees a listener for WebSockets.
void Server::show_chat() {
    for (const auto& [url, open_to_anybody] : listening_)
        if (url.is_websocket())
            return admin_->show_chat({.tls = url.has_tls(), .port = url.port, .path = url.path});
}

void Server::begin() { store_->begin(); }

void Server::start() {
    begin();
    store_->serve();
    if (webhook_) {  // before any event: it must tell new events from earlier ones
        store_->watch_events(webhook_->on_event());
        webhook_->start(store_->ledger());
    }
    for (auto& shard : shards_) threads_.emplace_back([&shard] { shard->run(); });
    is_serving_ = true;
    admin_->start();
    if (cluster_)
        cluster_->accept_edges(
            shards(),
            [links = links_](std::shared_ptr<FrameStream> stream) {
                spdlog::info("node {} is an edge: its clients are served here",
                             stream->peer().incarnation);
                links->add(std::move(stream));
            },
            [this](UniqueFd socket, CarriedRequest request) {
                admin_->adopt(std::move(socket),
                              {.address = Address::parse(request.address).value_or(Address()),
                               .node = std::move(request.node.incarnation),
                               .token = std::move(request.token),
                               .is_let_in = request.is_of_node});
            });
}

bool Server::is_alive() const {
    constexpr Millis longest_pause = 3'000;
    if (!is_serving_) return true;
    const Millis now = monotonic_now();
    return std::ranges::all_of(shards_, [now](const std::unique_ptr<Shard>& shard) {
        return now - shard->last_tick() <= longest_pause;
    });
}

void Server::on_every_shard(const std::function<void(Shard&)>& task) {
    std::vector<std::future<void>> done;
    for (std::size_t i = 0; i < threads_.size(); ++i) done.push_back(shards_[i]->call(task));
    for (auto& each : done) each.wait();  // all of them, because a task may refer to its caller
    for (auto& each : done) each.get();
}

void Server::announce_drain(const DrainTerms& terms) {
    spdlog::info("draining: not ready for {} s, then {} clients are asked to leave within {} s",
                 terms.notice / 1000, admission_.open(), terms.over / 1000);
    drain_.enter(DrainState::Phase::notice, wall_now() + terms.notice);
}

void Server::begin_drain(Millis over) {
    drain_.enter(DrainState::Phase::leaving, wall_now() + over);
    for (auto& shard : shards_) shard->send(Shard::Task([over](Shard& each) { each.drain(over); }));
}

void Server::release_forwarded() {
    for (auto& each : shards_) each->send(Shard::Task([](Shard& s) { s.release_forwarded(); }));
}

/// Waits, at most for stop-wait, until the subscribers to presence have been sent that all users
/// are offline.
void Server::await_presence_sent() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(stop_wait_);
    while (std::chrono::steady_clock::now() < end) {
        std::atomic<std::size_t> behind = 0;
        on_every_shard([&](Shard& shard) { behind += shard.broker().admin().sessions().behind(); });
        if (behind == 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

/// After stop-wait, the store may take some seconds, and so may clients that read slowly. With the
/// usual stop-wait, a stop takes less time than service managers allow for it (Docker: 10 s).
Millis Server::longest_stop() const {
    constexpr Millis usual = 9'000;
    constexpr Millis after_wait = 6'000;
    return std::max(usual, stop_wait_ + after_wait);
}

/// Null if no listener has TLS. The keys of tickets stay the same, so that tickets from before a
/// reload or an upgrade still resume their sessions. This is right for a changed tls-client-ca,
/// too, because with one a Tls accepts no tickets.
std::shared_ptr<const Tls> Server::read_certificates(const Config& config,
                                                     const Inheritance& inheritance) const {
    if (std::ranges::none_of(config.listen, &ListenUrl::has_tls)) return nullptr;
    const auto tls = std::make_shared<Tls>(config.tls);
    if (tls_)
        tls->ticket_keys().adopt(tls_->ticket_keys().describe());
    else if (inheritance.gateway && inheritance.gateway->ticket_keys)
        tls->ticket_keys().adopt(*inheritance.gateway->ticket_keys);
    return tls;
}

void Server::watch_certificates(const Tls* tls) {
    if (!tls) return;
    std::vector<CertificateEnd> ends;
    ends.reserve(tls->expiries().size());
    for (const auto& [file, end] : tls->expiries()) ends.push_back({"tls-cert", file, end});
    certificates_.use(std::move(ends));
}

void Server::reopen_files() {
    if (events_) events_->reopen();
}

std::function<void()> Server::prepare_tokens(const Config& config) {
    for (const auto& [url, open_to_anybody] : listening_)
        if (!url.for_clients()) check_public(config, url, resolve(url));
    return [this, is_said = config.has_admin_tokens(),
            tokens = read_admin_tokens(config.admin_token_file, config.admin_tokens_file)] {
        admin_->use(tokens);
        if (is_said) spdlog::info("admin tokens reloaded");
    };
}

std::function<void()> Server::prepare_certificates(const Config& config) {
    std::function<SSL*()> of_admin;
    if (admin_has_tls(config)) of_admin = admin_tls_sessions(config);
    return [this, tls = read_certificates(config), of_admin] {
        if (!tls) return;
        if (of_admin) admin_->use(of_admin);
        tls_ = tls;
        for (auto& shard : shards_) shard->send(Shard::Task([tls](Shard& each) { each.use(tls); }));
        spdlog::info("certificates reloaded");
        watch_certificates(tls.get());
    };
}

std::function<void()> Server::prepare_users(const Config& config) {
    return [this, take_files = authenticator_.prepare_reload(config.authenticator.jwt)] {
        take_files();
        const auto rules = authenticator_.rules();
        const auto lines = authenticator_.password_lines();
        // The log line is a promise: it comes when no client can read any more what the rules
        // forbid.
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
    };
}

void Server::use(const Config& config) {
    stop_wait_ = config.stop_wait;
    drain_.use(config.drain);
    address_limits_.use(config.address_limits);
    admission_.use(config.admission, own_files(config));
    authenticator_.use(authenticator_settings(config));
    const auto values = std::make_shared<const Config>(config);
    for (auto& shard : shards_)
        shard->send(Shard::Task([values](Shard& each) { each.use(*values); }));
}

std::vector<std::string> Server::reload(const Config& config) {
    std::vector<std::string> faults;
    std::vector<std::function<void()>> steps;
    const auto prepare = [&](const char* what, const auto& read) {
        try {
            steps.push_back(read());
        } catch (const std::exception& error) {
            spdlog::error("{} not reloaded: {}", what, error.what());
            faults.emplace_back(error.what());
        }
    };
    prepare("admin tokens", [&] { return prepare_tokens(config); });
    prepare("certificates", [&] { return prepare_certificates(config); });
    prepare("users, keys and rules", [&] { return prepare_users(config); });
    if (webhook_)
        prepare("webhook's files",
                [&] { return webhook_->prepare_reload(config.webhook.timeout); });
    reopen_files();
    if (!faults.empty()) return faults;
    use(config);
    for (const auto& step : steps) step();
    return faults;
}

/// Waits until the edges have what their clients are told, unless they are slow.
void Server::end_links() {
    constexpr auto patience = std::chrono::milliseconds(300);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (links_->waiting() > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    links_->close();
}

void Server::stop() {
    if (threads_.empty()) return;
    is_serving_ = false;
    drain_.enter(DrainState::Phase::stopping, 0);
    // First all users go offline, and the subscribers to presence are told; only then are clients
    // disconnected.
    authenticator_.begin_stop();
    if (cluster_) cluster_->refuse_edges();
    const bool has_next = cluster_ && has_successor(cluster_->view());
    on_every_shard([has_next](Shard& shard) { shard.announce_shutdown(has_next); });
    await_presence_sent();
    on_every_shard([has_next](Shard& shard) { shard.stop(has_next); });
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    end_links();
    admin_->stop();
    for (auto& shard : shards_) shard->broker().flush_store();
    if (webhook_) webhook_->stop();
    is_stored_ = store_->close();
    authenticator_.stop();  // last: a check under way may take longer than a stop may
}

}  // namespace pulsegate
