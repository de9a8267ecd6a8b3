#include "server/shard/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/shard/data_store.h"
#include "server/shard/item_weight.h"
#include "server/shard/traced_connections.h"
#include "server/transport/connections/connection.h"
#include "server/transport/connections/turn_work.h"

namespace pulsegate {

namespace {

struct ItemWeight {
    std::size_t operator()(const MessageRef& message) const { return weight_of(message); }
    std::size_t operator()(const ShardMessage& message) const { return weight_of(message); }
    std::size_t operator()(const LedgerAnswer& answer) const { return weight_of(answer); }
    std::size_t operator()(const LinkMail& mail) const {
        return bookkeeping_weight + mail.frames.size();
    }
    template <class Other>
    std::size_t operator()(const Other&) const {
        return bookkeeping_weight;
    }
};

/// An ending that was logged before has no text any more.
void log_end(const Connection& connection, const Ending& ending, bool logs_logins, Millis now) {
    const bool has_words = *ending.why != '\0';
    const bool matters = logs_logins || (has_words && ending.cause == Cause::timeout);
    const auto level = has_words && ending.cause == Cause::kicked ? spdlog::level::warn
                       : matters                                  ? spdlog::level::info
                                                                  : spdlog::level::debug;
    if (!spdlog::should_log(level)) return;
    const LoggedReason why{ending.why};
    const Millis silent = now - connection.last_packet();
    if (connection.session)
        log_limited(level, "{}: {}: {}, {} ms after its last packet", connection.session->logged(),
                    name(ending.cause), why, silent);
    else if (connection.forwards())
        log_limited(level, "{} of this edge: {}: {}, {} ms after its last packet",
                    LoggedAddress{connection.peer()}, name(ending.cause), why, silent);
    else
        log_limited(level, "{} without login: {}: {}, {} ms after its last packet",
                    LoggedAddress{connection.peer()}, name(ending.cause), why, silent);
}

/// The time for clients to read the DISCONNECT of a server that stops.
constexpr Millis disconnect_patience = 300;

/// The interval in ns for a rate per second; 0 if there is no limit.
double time_of_one(double rate) { return rate == 0 ? 0 : 1e9 / rate; }

/// The part of memory-budget for unfinished packets.
constexpr std::size_t least_for_unfinished = 16 * 1024 * 1024;

TransportSettings transport_settings(const Config& config, const Admission& admission) {
    return {.max_packet_size = config.max_packet_size,
            .output_budget = config.output_budget,
            .total_output_budget = config.total_output_budget,
            .unfinished_budget = std::max(admission.memory_budget() / 16, least_for_unfinished),
            .login_timeout = config.login_timeout,
            .message_time = time_of_one(config.max_message_rate),
            .byte_time = time_of_one(static_cast<double>(config.max_byte_rate)),
            .websocket_ping = config.websocket_ping,
            .server_reference = config.server_reference};
}

LoginSettings login_settings(const Config& config, unsigned shard) {
    return {.shard = shard,
            .login_wait = config.login_wait,
            .max_loop_lag = config.max_loop_lag,
            .client_limits = config.client_limits,
            .user_from = config.user_from,
            .log_logins = config.log_logins};
}

/// Users of clients that are asked to leave are awaited if the next start will know them.
Ending drained_ending(const Config& config) {
    return {
        config.stores() ? Cause::drained : Cause::shutdown,
        config.server_reference.empty() ? Reason::server_shutting_down : Reason::use_another_server,
        "the server is drained: connect again"};
}

}  // namespace

Shard::Shard(Config& config, unsigned index, const GatewayParts& shared)
    : index_(index),
      admission_(shared.admission),
      peers_(index, admission_, shared.totals, shared.events, shared.store),
      broker_(config, index, config.shards, interest_, counters_, peers_),
      edges_(index, rounds_, transport_, logins_, broker_.logins(), shared.address_limits),
      forwarded_(index, rounds_, broker_.logins(), shared.authenticator, shared.address_limits),
      transport_(rounds_, transport_settings(config, admission_),
                 {admission_, shared.address_limits}, counters_, broker_.admin().tracer(), *this),
      logins_(login_settings(config, index), rounds_,
              {admission_, shared.address_limits, shared.authenticator}, counters_,
              broker_.logins(), transport_, *this),
      listeners_(rounds_, admission_, counters_, transport_),
      upgrade_(index, rounds_, turns_, broker_, transport_, logins_, listeners_),
      config_(config),
      drained_(drained_ending(config)) {}

Shard::~Shard() = default;

void Shard::use(const Config& config) {
    config_ = config;
    transport_.use(transport_settings(config_, admission_));
    logins_.use(login_settings(config_, index_));
    drained_ = drained_ending(config_);
    broker_.settings_changed();
}

void Shard::run() {
    name_thread(fmt::format("shard {}", index_));
    thaw();
    wait_for_tick();
    loop_.run();
}

void Shard::judge(std::function<void()> judged) {
    if (!broker_.judge_some(monotonic_now())) return judged();
    rounds_.later([this, judged = std::move(judged)] { judge(judged); });
}

Evicted Shard::evict(const Address& address) {
    const Ending ending{Cause::kicked, Reason::administrative_action, "its address was banned"};
    std::vector<BannedClient> banned;
    Evicted evicted = transport_.end_some(address, ending, [&](Session& session) {
        broker_.drop_will(session);
        banned.push_back({session.user.name, session.client});
    });
    evicted.banned = std::move(banned);
    return evicted;
}

void Shard::drain(Millis over) {
    is_drained_ = true;
    logins_.drain();
    drain_.begin(over, drained_);
}

void Shard::announce_shutdown(bool has_successor) {
    if (upgrade_.is_still()) return;  // another process has its clients
    is_drained_ = is_drained_ || has_successor;
    listeners_.stop();
    // Otherwise a user could come online after all users were reported offline.
    logins_.announce_shutdown();
    const bool are_awaited = is_drained_ && drained_.cause == Cause::drained;
    broker_.begin_stop(
        are_awaited ? Broker::UsersAtStop::are_awaited : Broker::UsersAtStop::go_offline,
        monotonic_now());
    transport_.end_turn();
}

void Shard::stop(bool has_successor) {
    stopping_ = true;
    if (upgrade_.is_still()) return loop_.stop();
    transport_.end_turn();  // the answers of this round
    if (has_successor) edges_.leave_clients_to_next_home();
    const Ending stopped{Cause::shutdown, Reason::server_shutting_down,
                         "the server is shutting down"};
    transport_.end_all(is_drained_ ? drained_ : stopped);
    leave_by(monotonic_now() + disconnect_patience);
}

void Shard::leave_by(Millis end) {
    if (transport_.connections() == 0 || monotonic_now() >= end) return loop_.stop();
    rounds_.after(timer_, std::chrono::milliseconds(5), [this, end] { leave_by(end); });
}

ShardStatus Shard::status() const {
    const BrokerAdmin& admin = broker_.admin();
    const Wheel& wheel = transport_.wheel();
    ShardStatus status{.counters = counters_,
                       .connections = transport_.connections(),
                       .listeners = transport_.connections_by_listener(),
                       .connected = admin.sessions().connected(),
                       .forwarded = edges_.linked_clients(),
                       .elsewhere = edges_.clients(),
                       .edges = edges_.linked(),
                       .disconnected = admin.sessions().disconnected(),
                       .waiting = broker_.waiting(),
                       .subscriptions = broker_.subscriptions(),
                       .users = admin.presence().users(),
                       .online = admin.presence().online(),
                       .retained = admin.retained().messages(),
                       .retained_bytes = admin.retained().bytes(),
                       .stored = admin.journal().messages(),
                       .spared = broker_.spared(),
                       .delayed = index_ == 0 ? peers_.delayed_total(std::nullopt) : DelayedTotal{},
                       .store_refuses = admin.journal().would_be_refused(),
                       .left_out = index_ == 0 ? peers_.store().left_out() : 0,
                       .damaged = index_ == 0 ? peers_.store().damaged() : 0,
                       .damage_found = index_ == 0 && peers_.store().damage()
                                           ? peers_.store().damage()->found / 1000
                                           : 0,
                       .data_bytes = index_ == 0 ? peers_.store().bytes() : 0,
                       .max_data_bytes = index_ == 0 ? peers_.store().max_bytes() : 0,
                       .logins_waiting = logins_.waiting(),
                       .backlog = transport_.backlog(),
                       .tick = wheel.now(),
                       .slots = {}};
    for (Tick slot = 0; slot < Wheel::slots; ++slot) status.slots[slot] = wheel.count(slot);
    return status;
}

// -- events of connections --

void Shard::on_connect(Connection& connection, ReceivedConnect connect, Millis now) {
    admission_.weigh_if_due(now, bytes_of_messages());  // it may have a large will
    logins_.begin(connection, std::move(connect), now);
}

void Shard::on_packet(Connection& connection, const Packet& packet, Millis now) {
    admission_.weigh_if_due(now, bytes_of_messages());
    if (connection.session) broker_.handle(*connection.session, packet, now);
}

void Shard::on_drained(Connection& connection) {
    if (connection.forwards()) return forwarded_.drained(connection);
    if (connection.session) broker_.drained(*connection.session, monotonic_now());
}

void Shard::on_slowed(Connection& connection) {
    if (connection.session)
        log_limited(spdlog::level::warn,
                    "{} slowed: it sends more than max-message-rate or max-byte-rate",
                    connection.session->logged());
}

void Shard::on_lost_edge(Connection& connection) {
    if (connection.session) broker_.lose_node(*connection.session);
}

void Shard::on_end(Connection& connection, const Ending& ending, Millis now) {
    if (forwarded_.is_on()) forwarded_.ended(connection, ending);
    const bool expired = ending.cause == Cause::timeout;
    Session* session = connection.session;
    log_end(connection, ending, session && config_.log_logins, now);
    logins_.ended(connection);
    if (!session) return trace_end(broker_.admin().tracer(), connection, ending, now);
    if (expired && is_accepted(connection)) ++counters_.expiries;
    logins_.count_end(*session, ending, now);
    broker_.end(*session, ending, now);
}

void Shard::on_traced(const Connection& connection, Bytes packet, Version version, Sender sender) {
    trace_packet(broker_.admin().tracer(), broker_.logins(), connection, packet, version, sender);
}

bool Shard::is_accepted(const Connection& connection) const {
    if (connection.forwards()) return true;
    return connection.session && !connection.session->awaits_connack;
}

bool Shard::has_unanswered(const Connection& connection) const {
    return connection.session && broker_.has_unanswered(*connection.session);
}

bool Shard::awaits_answers(const Connection& connection) const {
    if (connection.forwards()) return forwarded_.must_wait(connection);
    return connection.session && broker_.awaits_answers(*connection.session);
}

/// While the store refuses, answers may wait for hours.
Millis Shard::answer_pause() const { return broker_.store_refuses() ? 1000 : 2; }

// -- requests of logins --

void Shard::move_login(unsigned shard, MovedLogin login) { peers_[shard].send(std::move(login)); }

bool Shard::forward_login(Login& login) {
    if (!forwarded_.is_on()) return false;
    forwarded_.open(login);
    return true;
}

/// The first shard tells the other nodes, so that bans and lifts are in one order.
void Shard::tell_ban(const Address& address) {
    peers_[0].send(Task([address](Shard& first) {
        if (first.forwarded_.is_on())
            first.forwarded_.tell_ban(address);
        else
            first.edges_.tell_ban(address);
    }));
}

void Shard::begin_check(CheckTurn turn) { send(turn); }
void Shard::answer_login(LoginAnswer answer) { send(std::move(answer)); }

// -- mailbox --

void Shard::receive(const LinkMail& mail) {
    if (forwarded_.is_on())
        forwarded_.receive(mail);
    else
        edges_.receive(mail);
}

std::size_t Shard::send(Item item) {
    const std::size_t weight = std::visit(ItemWeight{}, item);
    return mailbox_.send(std::move(item), weight);
}

std::future<void> Shard::call(Task task) {
    const auto call = std::make_shared<std::packaged_task<void(Shard&)>>(std::move(task));
    auto done = call->get_future();
    send(Task([call](Shard& shard) { (*call)(shard); }));
    return done;
}

/// The turns that the broker has left come before mail until half of the round's work is done. So
/// mail does not wait for them, however many there are, and they wait for no more than a round of
/// mail.
void Shard::drain_mailbox() {
    const auto began_at = work();
    std::uint64_t handled = 0;
    const auto done = [&] { return work() - began_at + handled; };
    while (const auto cost = receive_next(done() <= work_a_turn / 2)) {
        handled += cost;
        if (done() <= work_a_turn) continue;
        rounds_.go_on();  // the rest comes in another round
        break;
    }
    transport_.end_turn();
}

/// Handles the next turn or item. Returns its cost besides `work`, or 0 if there is nothing. A
/// message is work even without subscribers, or senders could keep us here for ever.
std::uint64_t Shard::receive_next(bool turns_first) {
    if (broker_.unfinished()) {
        broker_.go_on(monotonic_now());
        return 1;
    }
    if (const auto cost = turns_first ? receive_turn() : 0) return cost;
    auto item = next_item();
    if (!item) return receive_turn();
    if (must_wait(*item)) {
        held_.push_back(*std::move(item));
        return 1;
    }
    if (!std::holds_alternative<Task>(*item)) upgrade_.count_handled();
    std::visit([this](auto& content) { receive(content); }, *item);
    return std::holds_alternative<MovedLogin>(*item) ? login_work : 1;
}

std::optional<Shard::Item> Shard::next_item() {
    if (held_.empty() || upgrade_.is_at_rest()) return mailbox_.next();
    std::optional<Item> first = std::move(held_.front());
    held_.pop_front();
    return first;
}

/// At rest it runs tasks, and nothing else.
bool Shard::must_wait(const Item& item) const {
    if (std::holds_alternative<Task>(item)) return false;
    const bool is_of_login = std::holds_alternative<MovedLogin>(item) ||
                             std::holds_alternative<CheckTurn>(item) ||
                             std::holds_alternative<LoginAnswer>(item);
    return upgrade_.is_still() || (is_of_login && upgrade_.holds_logins());
}

// -- turns of its own --

void Shard::later(OwnTurn turn) {
    if (std::holds_alternative<JournalTurn>(turn)) return end_journal_turn();
    leave(std::move(turn));
}

void Shard::leave(OwnTurn turn) {
    turns_.push_back(std::move(turn));
    rounds_.go_on();
}

/// The unit is handed in at the end of this round, or of the next one between rounds. But it waits
/// for the rest of a message's receivers, so that they are stored with the message. At rest it
/// waits as other turns do.
void Shard::end_journal_turn() {
    rounds_.later([this] {
        OwnTurn turn = JournalTurn{};
        if (broker_.unfinished() || upgrade_.is_at_rest())
            leave(std::move(turn));
        else
            broker_.receive(turn, monotonic_now());
    });
}

/// Does the next turn. Returns its cost besides `work`, or 0 if there is none. At rest turns wait.
std::uint64_t Shard::receive_turn() {
    if (turns_.empty() || upgrade_.is_still()) return 0;
    OwnTurn turn = std::move(turns_.front());
    turns_.pop_front();
    upgrade_.count_handled();
    broker_.receive(turn, monotonic_now());
    return 1;
}

// -- time --

void Shard::call_store_overdue(Millis when) {
    rounds_.after(store_timer_, std::chrono::milliseconds(when - monotonic_now()), [this] {
        broker_.store_overdue(monotonic_now());
        transport_.end_turn();
    });
}

void Shard::wait_for_tick() {
    const Millis now = monotonic_now();
    const auto next = std::chrono::milliseconds((now / tick_length + 1) * tick_length - now);
    rounds_.after(timer_, next, [this] {
        if (stopping_) return;
        tick();
        wait_for_tick();
    });
}

void Shard::tick() {
    const Millis due = timer_.expiry().time_since_epoch() / std::chrono::milliseconds(1);
    const Millis now =
        std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
    counters_.count_lag(now - due);
    logins_.report_lag(now - due);
    last_tick_.store(now, std::memory_order_relaxed);
    advance();
}

void Shard::advance() {
    if (index_ == 0) admission_.weigh();
    if (upgrade_.is_at_rest()) return;
    const Millis now = monotonic_now();
    note_standstill(now);
    transport_.expire_due();
    logins_.client_limits().tick(now);
    ticked_ = now;
    tick_broker();
    listeners_.tick();
}

// -- time in which nothing could be handled --

/// If this process was stopped for some seconds (SIGSTOP, a move of the virtual machine), clients
/// may have come back meanwhile, and nobody has read what they sent. So the ends that wait for a
/// client's return move by that time.
void Shard::note_standstill(Millis now) {
    const Millis late = now - std::exchange(advanced_, now) - tick_length;
    if (late < tick_length) return;
    const Tick ticks = static_cast<Tick>(late / tick_length) + ticks_to_return(now);
    broker_.postpone_ends(ticks);
    transport_.postpone(ticks);
}

void Shard::thaw() {
    const auto pause = upgrade_.thaw();
    advanced_ = monotonic_now();
    if (!pause) return;
    const Tick more = ticks_to_return(advanced_);
    broker_.postpone_ends(static_cast<Tick>(*pause / tick_length) + more);
    transport_.postpone(more);  // all its deadlines have moved by the pause
}

/// This tick and the next one end nothing that waits for a client's return. But if it stands still
/// again and again, time goes on, or nothing would ever end.
Tick Shard::ticks_to_return(Millis now) {
    constexpr Millis soon = 10'000;
    const auto last = std::exchange(last_standstill_, now);
    return last && now - *last < soon ? 0 : 2;
}

/// If more is due, it continues with the time of the last tick: the process may have stood still
/// since.
void Shard::tick_broker() {
    if (upgrade_.is_at_rest()) return;
    const bool more = broker_.tick(ticked_);
    transport_.end_turn();
    if (more) rounds_.later([this] { tick_broker(); });
}

}  // namespace pulsegate
