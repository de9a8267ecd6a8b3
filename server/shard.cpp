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

/// How long clients have to read that the server stops.
constexpr Millis farewell = 300;

}  // namespace

Shard::Shard(const Config& config, unsigned index, Admission& admission, Gatekeeper& gatekeeper,
             LineWriter* events)
    : index_(index),
      admission_(admission),
      gatekeeper_(gatekeeper),
      events_(events),
      settings_(config),
      broker_(settings_, index, config.shards, interest_, store_, counters_, *this),
      transport_(io_, {config.max_packet_size, config.output_budget, config.login_timeout},
                 admission, counters_, *this) {}

Shard::~Shard() = default;

Listener::Endpoint Shard::listen(const Listener::Endpoint& endpoint, const Door& door) {
    const auto accepted = [this, door](int socket) {
        ++counters_.accepted;
        std::unique_ptr<Wrapping> wrapping;
        if (!door.plain()) {
            wrapping = std::make_unique<Wrapping>();
            wrapping->entrance = std::make_unique<Entrance>(door, tls_);
        }
        transport_.adopt({socket, std::move(wrapping)});
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

void Shard::on_connect(Connection& connection, const Connect& connect, Millis now) {
    if (admission_.full())
        return broker_.refuse(connection, connect, Reason::server_busy,
                              "no descriptor is left: the limit on open files is reached");
    auto verdict = connection.take_verdict();
    if (!verdict && gatekeeper_.asks()) return ask_for_verdict(connection, connect);
    if (!verdict) verdict.emplace();
    if (verdict->reason != Reason::success) return turn_away(connection, connect, *verdict);
    const unsigned home = broker_.home(connect, *verdict);
    if (home != index_) {
        shards_[home]->send(connection.release(std::move(*verdict)));
        return;
    }
    broker_.login(connection, connect, *verdict, now);
    if (const Session* session = connection.session;
        session && spdlog::should_log(spdlog::level::debug))
        log_limited(spdlog::level::debug, "{} client {} of user {}: login", connection.peer(),
                    quoted(session->client), quoted(session->user.name));
}

void Shard::ask_for_verdict(Connection& connection, const Connect& connect) {
    connection.hold();
    const auto ticket = next_ticket_++;
    held_.emplace(ticket, &connection);
    const auto answer = [this, ticket](Verdict verdict) {
        send(Task([ticket, verdict = std::move(verdict)](Shard& shard) {
            const auto held = shard.held_.find(ticket);
            const auto judged = std::move(held->second);
            shard.held_.erase(held);
            judged->go_on(verdict);
        }));
    };
    gatekeeper_.judge(
        {std::string(connect.username.value_or("")), std::string(connect.password.value_or(""))},
        answer);
}

/// The log says why; the client is not told what would help it guess.
void Shard::turn_away(Connection& connection, const Connect& connect, const Verdict& verdict) {
    log_limited(spdlog::level::warn, "{} client {} as user {}: {}", connection.peer(),
                quoted(connect.client_id), quoted(connect.username.value_or("")), verdict.why);
    const bool busy = verdict.reason == Reason::server_busy;
    broker_.refuse(connection, connect, verdict.reason,
                   busy ? "too many logins wait to be checked" : "it did not show who it is");
}

void Shard::on_drained(Connection& connection) {
    if (connection.session) broker_.drained(*connection.session, monotonic_now());
}

void Shard::on_end(Connection& connection, const Ending& ending, Millis now) {
    const bool provoked = ending.cause == Cause::kicked;
    const bool expired = ending.cause == Cause::timeout;
    const auto level = provoked  ? spdlog::level::warn
                       : expired ? spdlog::level::info
                                 : spdlog::level::debug;
    Session* session = connection.session;
    if (spdlog::should_log(level))
        log_limited(level, "{} {}: {}: {}, {} ms after its last packet", connection.peer(),
                    session ? "client " + quoted(session->client) : std::string("without login"),
                    name(ending.cause), ending.why, now - connection.last_packet());
    if (!session) return;
    if (ending.reason == Reason::quota_exceeded) ++counters_.slow_consumers;
    if (expired) ++counters_.expiries;
    broker_.end(*session, ending, now);
}

// -- what the broker asks for
// ------------------------------------------------------------------------

void Shard::forward(const MessageRef& message) {
    const bool for_all = message->stamp != 0;  // retained: every shard keeps it
    const Interest::Topic topic(message->topic);
    for (Shard* shard : shards_) {
        if (shard == this || !(for_all || shard->interest_.wants(topic))) continue;
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
    for (std::uint64_t opened = 0;; ++opened) {
        if (unread_mail_ == mail_.size()) {
            mail_ = mailbox_.take();
            unread_mail_ = 0;
            if (mail_.empty()) break;
        }
        Mail mail = std::move(mail_[unread_mail_++]);
        std::visit([this](auto& content) { receive(content); }, mail);
        // A letter is work even if it interests nobody, or senders could keep us here for ever.
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
