#include "server/shard.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "server/log.h"
#include "server/transport/connection.h"
#include "server/transport/wrapping.h"

namespace pulsegate {

namespace {

/// Bytes of messages that may wait for another shard before we read no more from those who send
/// them.
constexpr std::size_t most_mail = 4 * 1024 * 1024;

struct Weight {
    std::size_t operator()(const MessageRef& message) const { return message->cost(); }
    std::size_t operator()(const Handout& handout) const {
        return handout.delivery.message->cost();
    }
    std::size_t operator()(const Return& returned) const {
        return returned.delivery.message->cost();
    }
    std::size_t operator()(const Letter& letter) const { return std::visit(*this, letter); }
    std::size_t operator()(const Membership& membership) const {
        return bookkeeping + membership.share.size();
    }
    std::size_t operator()(const PresencePage& page) const {
        std::size_t sum = bookkeeping;
        for (const MessageRef& message : page.messages) sum += message->cost();
        return sum;
    }
    template <class Other>
    std::size_t operator()(const Other&) const {
        return bookkeeping;
    }
    static constexpr std::size_t bookkeeping = 256;
};

std::string described(const Session* session) {
    return session ? "client " + quoted(session->client) : "without login";
}

/// What a login takes, in messages to one client.
constexpr std::uint64_t login_work = 512;

/// How long clients have to read that the server stops.
constexpr Millis farewell = 300;

/// In ns, of what may come so often a second; 0 if it may come any time.
double time_of_one(double rate) { return rate == 0 ? 0 : 1e9 / rate; }

/// What one shard may use of a sum that is for all.
TransportSettings transport_settings(const Config& config) {
    return {.max_packet_size = config.max_packet_size,
            .output_budget = config.output_budget,
            .total_output_budget = config.total_output_budget / config.shards,
            .login_timeout = config.login_timeout,
            .message_time = time_of_one(config.max_message_rate),
            .byte_time = time_of_one(static_cast<double>(config.max_byte_rate)),
            .websocket_ping = config.websocket_ping};
}

}  // namespace

Shard::Shard(const Config& config, unsigned index, Admission& admission, Visitors& visitors,
             Gatekeeper& gatekeeper, LineWriter* events)
    : index_(index),
      admission_(admission),
      visitors_(visitors),
      gatekeeper_(gatekeeper),
      events_(events),
      settings_(config),
      broker_(settings_, index, config.shards, interest_, store_, counters_, *this),
      transport_(io_, transport_settings(config), admission, visitors, counters_, *this),
      login_queue_({config.login_queue.rate / config.shards, config.login_queue.wait}),
      max_loop_lag_(config.max_loop_lag),
      conduct_(config.conduct) {}

Shard::~Shard() = default;

Listener::Endpoint Shard::listen(const Listener::Endpoint& endpoint, const Door& door) {
    const auto accepted = [this, door](int socket, const Listener::Endpoint& peer) {
        ++counters_.accepted;
        std::unique_ptr<Wrapping> wrapping;
        if (!door.plain()) {
            wrapping = std::make_unique<Wrapping>();
            wrapping->entrance = std::make_unique<Entrance>(door, tls_);
        }
        const Address address = door.proxy_protocol ? Address() : Address(peer.address());
        transport_.accept(socket, std::move(wrapping), address);
    };
    listeners_.push_back(std::make_unique<Listener>(io_, endpoint, admission_, accepted));
    return listeners_.back()->endpoint();
}

void Shard::run() {
    wait_for_tick();
    io_.run();
}

void Shard::announce_shutdown() {
    for (auto& listener : listeners_) listener->stop();
    broker_.announce_shutdown(monotonic_now());
    transport_.end_turn();
}

void Shard::stop() {
    stopping_ = true;
    transport_.end_all(
        {Cause::shutdown, Reason::server_shutting_down, "the server is shutting down"});
    leave_by(monotonic_now() + farewell);
}

void Shard::leave_by(Millis end) {
    if (transport_.connections() == 0 || monotonic_now() >= end) return io_.stop();
    timer_.expires_after(std::chrono::milliseconds(5));
    timer_.async_wait([this, end](boost::system::error_code) { leave_by(end); });
}

ShardStatus Shard::status() const {
    const Wheel& wheel = transport_.wheel();
    ShardStatus status{.counters = counters_,
                       .connections = transport_.connections(),
                       .connected = broker_.connected(),
                       .absent = broker_.absent(),
                       .waiting = broker_.waiting(),
                       .subscriptions = broker_.subscriptions(),
                       .users = broker_.presence().users(),
                       .online = broker_.presence().online(),
                       .retained = broker_.retained().messages(),
                       .retained_bytes = broker_.retained().bytes(),
                       .logins_waiting = login_queue_.size(),
                       .backlog = transport_.backlog(),
                       .tick = wheel.now(),
                       .slots = {}};
    for (Tick slot = 0; slot < Wheel::slots; ++slot) status.slots[slot] = wheel.count(slot);
    return status;
}

// -- what connections tell
// ---------------------------------------------------------------------------

void Shard::on_packet(Connection& connection, const Packet& packet, Millis now) {
    if (connection.session) return broker_.handle(*connection.session, packet, now);
    on_connect(connection, std::get<Connect>(packet), now);
}

void Shard::on_drained(Connection& connection) {
    if (connection.session) broker_.drained(*connection.session, monotonic_now());
}

void Shard::on_slowed(Connection& connection) {
    log_limited(spdlog::level::warn,
                "{} {} slowed: it sends more than max-message-rate or max-byte-rate",
                connection.peer(), described(connection.session));
}

void Shard::on_end(Connection& connection, const Ending& ending, Millis now) {
    const bool provoked = ending.cause == Cause::kicked;
    const bool expired = ending.cause == Cause::timeout;
    const auto level = *ending.why == '\0' ? spdlog::level::debug
                       : provoked          ? spdlog::level::warn
                       : expired           ? spdlog::level::info
                                           : spdlog::level::debug;
    Session* session = connection.session;
    if (spdlog::should_log(level))
        log_limited(level, "{} {}: {}: {}, {} ms after its last packet", connection.peer(),
                    described(session), name(ending.cause), ending.why,
                    now - connection.last_packet());
    if (!session) return;
    if (expired) ++counters_.expiries;
    judge_conduct(*session, ending, now);
    broker_.end(*session, ending, now);
}

// -- what the broker asks for
// ------------------------------------------------------------------------

void Shard::forward(const MessageRef& message, std::optional<unsigned> inbox) {
    const bool for_all = message->stamp != 0;  // retained: every shard keeps it
    const Interest::Topic topic(message->topic);
    for (Shard* shard : shards_) {
        const bool wanted = for_all || shard->index_ == inbox || shard->interest_.wants(topic);
        if (shard == this || !wanted) continue;
        if (shard->send(message) > most_mail) congested_ = true;
    }
}

bool Shard::congested() {
    const auto behind = [](const Shard* shard) { return shard->mailbox_.weight() > most_mail; };
    if (congested_) congested_ = std::any_of(shards_.begin(), shards_.end(), behind);
    return congested_;
}

void Shard::record(PresenceChange change) {
    if (events_) events_->write(to_json(change));
}

void Shard::send(unsigned shard, Letter letter) {
    if (shards_[shard]->send(std::move(letter)) > most_mail && shard != index_) congested_ = true;
}

// -- mail
// --------------------------------------------------------------------------------------------

std::size_t Shard::send(Mail mail) {
    const std::size_t weight = std::visit(Weight{}, mail);
    return mailbox_.send(std::move(mail), weight, [this] { open_mail(); });
}

void Shard::open_mail() {
    const auto began_at = work();
    std::uint64_t opened = 0;
    while (true) {
        if (unread_mail_ == mail_.size()) {
            mail_ = mailbox_.take();
            unread_mail_ = 0;
            if (mail_.empty()) break;
        }
        Mail mail = std::move(mail_[unread_mail_++]);
        std::visit([this](auto& content) { receive(content); }, mail);
        // A letter is work even if it interests nobody, or senders could keep us here for ever.
        opened += std::holds_alternative<Arrival>(mail) ? login_work : 1;
        if (work() - began_at + opened <= work_a_turn) continue;
        boost::asio::post(io_, [this] { open_mail(); });  // the rest in another turn
        break;
    }
    transport_.end_turn();
}

void Shard::receive(Arrival& arrival) { transport_.adopt(std::move(arrival)); }
void Shard::receive(const MessageRef& message) { broker_.deliver(message, monotonic_now()); }
void Shard::receive(Letter& letter) { broker_.receive(letter, monotonic_now()); }
void Shard::receive(const Task& task) { task(*this); }

// -- time
// --------------------------------------------------------------------------------------------

void Shard::wait_for_tick() {
    const Millis now = monotonic_now();
    timer_.expires_after(std::chrono::milliseconds((now / tick_length + 1) * tick_length - now));
    timer_.async_wait([this](boost::system::error_code error) {
        if (error || stopping_) return;
        tick();
        wait_for_tick();
    });
}

void Shard::tick() {
    const Millis due = timer_.expiry().time_since_epoch() / std::chrono::milliseconds(1);
    const Millis now =
        std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
    counters_.count_lag(now - due);
    lag_ = now - due;
    if (index_ == 0) admission_.weigh();
    transport_.expire_due();
    tick_broker();
    for (auto& listener : listeners_) listener->tick();
}

void Shard::use(std::shared_ptr<const AccessRules> rules) { broker_.use(std::move(rules)); }

void Shard::tick_broker() {
    const bool more = broker_.tick(monotonic_now());
    transport_.end_turn();
    if (more) boost::asio::post(io_, [this] { tick_broker(); });
}

}  // namespace pulsegate
