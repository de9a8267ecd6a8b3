#include "loadgen/kill/kill_run.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "loadgen/kill/rooms.h"
#include "loadgen/net/descriptor.h"
#include "loadgen/net/http.h"

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

constexpr auto tick_length = 5ms;
constexpr auto line_every = 5s;
constexpr auto first_start_patience = 600s;  // the broker may have to be built first
constexpr auto http_patience = 30s;          // after the port of MQTT is open
constexpr auto start_patience = 60s;
constexpr auto set_up_patience = 30s;
constexpr auto drain_patience = 30s;  // after the last delayed message is due
constexpr auto quiet_at_the_end = 1s;
constexpr auto quiet_before_loss = 4s;  // after this long without arrivals, a message is lost
constexpr auto stop_patience = 30s;
constexpr auto judge_presence_every = 250ms;
constexpr auto question_every = 50ms;
constexpr std::uint16_t kills_while_starting = 10;  // follow one of this many kills
constexpr std::uint16_t lulls = 3;                  // precede one of this many ends
constexpr auto lull = 1s;

/// Two runs with one seed need different numbers, or the second would find the sessions of the
/// first.
std::uint64_t number_of_run() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

bool accepts_connections(const load::SocketAddress& server) {
    const load::Descriptor probe(::socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    return probe && ::connect(probe.get(), server.get(), server.size()) == 0;
}

}  // namespace

KillRun::KillRun(const Options& options, load::Interruption& interruption)
    : options_(options),
      interruption_(interruption),
      context_{.loop = loop_,
               .options = options,
               .run = number_of_run(),
               .messages = {},
               .presence = PresenceChecker(options.slowness),
               .random = RandomChoices(options.seed),
               .receivers = ReceiverCounts(options),
               .backlog = Backlog(ReceiverCounts(options).all())},
      data_(options),
      broker_(broker_command(options, data_), options.log),
      clock_(options.clock, context_.random),
      clients_(context_),
      retained_(context_, version_of(options, 0)),
      feed_(context_) {
    results_.command = broker_command(options, data_);
}

Results KillRun::run() {
    for (const auto& node : options_.nodes)
        if (accepts_connections(node.address))
            throw std::runtime_error(fmt::format(
                "port {} is in use: name a free one with --port, and have the broker "
                "listen there{}",
                node.port, options_.edges ? "; --edges needs the next port as well" : ""));
    start_broker(first_start_patience);
    set_up();
    end_at_random_moments();
    drain();
    read_retained();
    kill_broker();
    results_.messages = std::move(context_.messages);
    results_.presence = std::move(context_.presence);
    return std::move(results_);
}

void KillRun::start_broker(Duration patience) {
    const Time started = load::Clock::now();
    start_process();
    const Time deadline = load::Clock::now() + patience;
    while (!serves(load::Clock::now())) {
        if (const auto how = broker_.ended())
            throw std::runtime_error(
                fmt::format("after {} ends the broker ended with {} before port {} was open; "
                            "--log FILE keeps what it says",
                            ends(), *how, options_.nodes.front().port));
        if (load::Clock::now() > deadline)
            throw std::runtime_error(
                fmt::format("after {} ends port {} was not open within {:.0f} s; --log FILE "
                            "keeps what the broker says",
                            ends(), options_.nodes.front().port, load::seconds(patience)));
        work_until(load::Clock::now() + tick_length);
    }
    have_standby();
    serving_ = true;
    context_.http = options_.http_url(place_);
    const Time now = served_ = load::Clock::now();
    context_.presence.broker_serves(started, now);
    clients_.broker_serves({last_step_, started}, now);
}

/// An edge opens its ports before it owns the data, so open ports do not show that it serves.
bool KillRun::serves(Time now) {
    if (!accepts_connections(options_.nodes[place_].address)) return false;
    if (!options_.edges) return true;
    if (now < next_question_) return false;
    next_question_ = now + question_every;
    return load::ask({.url = options_.http_url(place_) + "/api/v1/presence/changes"}).status == 200;
}

/// Starts the broker. A standby that takes over has read the clock already, at its own start.
void KillRun::start_process() {
    const Duration ahead = std::exchange(standby_ahead_, {}).value_or(clock_.ahead());
    last_step_ = ahead - std::exchange(ahead_, ahead);
    if (last_step_ > Duration()) ++results_.steps_forward;
    if (last_step_ < Duration()) ++results_.steps_back;
    context_.messages.step_clock(last_step_, load::Clock::now());
    place_ = static_cast<std::uint16_t>(options_.edges && broker_.has_standby() ? 1 - place_ : 0);
    broker_.start();
}

/// Starts a standby, which takes over when the broker ends.
void KillRun::have_standby() {
    if (options_.cluster.empty() || standby_ahead_) return;
    step_clock(ends() + 1);
    const auto place = static_cast<std::uint16_t>(options_.edges ? 1 - place_ : 0);
    broker_.stand_by(broker_command(options_, data_, ++nodes_, place));
    standby_ahead_ = clock_.ahead();
}

/// Kills the edge. Its clients lose their connections, while the broker serves on.
void KillRun::kill_edge() {
    const auto place = static_cast<std::uint16_t>(1 - place_);
    broker_.kill_standby();
    const Time now = load::Clock::now();
    results_.kills.push_back(now);
    ++results_.edge_kills;
    std::set<std::string> users;
    for (const auto& [user, last] : context_.place_of)
        if (last == place) users.insert(user);
    context_.presence.edge_killed(users, now);
    clients_.edge_killed(place, now);
    standby_ahead_.reset();
    have_standby();
}

/// Both nodes are killed equally often.
bool KillRun::kills_edge_next() {
    if (!options_.edges || stop_comes_next()) return false;
    const std::size_t kills_of_homes = results_.kills.size() - results_.edge_kills;
    if (results_.edge_kills != kills_of_homes) return results_.edge_kills < kills_of_homes;
    return context_.random.below(2) == 0;
}

void KillRun::kill_broker() {
    broker_.kill();
    context_.presence.broker_killed(load::Clock::now());
    broker_ends(BrokerEnd::kill);
}

/// Waits until the broker knows the standby. False if the broker has no HTTP API that could say so,
/// or if it takes too long.
bool KillRun::knows_standby() {
    if (options_.http == 0) return false;
    return work_until(load::Clock::now() + http_patience, [this] {
        const Time now = load::Clock::now();
        if (now < next_question_) return false;
        next_question_ = now + question_every;
        constexpr std::string_view alive = "\"condemned\":false";
        const auto nodes = load::ask({.url = options_.http_url(place_) + "/api/v1/cluster"}).body;
        const auto first = nodes.find(alive);
        return first != std::string::npos && nodes.find(alive, first + 1) != std::string::npos;
    });
}

/// Stops the broker in order: the process must end by itself, with exit status 0. If another node
/// takes over, that node waits for the clients, as after a kill.
void KillRun::stop_broker() {
    const bool has_successor = broker_.has_standby() && knows_standby();
    const Time asked = load::Clock::now();
    broker_.terminate();
    if (has_successor)
        context_.presence.broker_killed(asked);
    else
        context_.presence.broker_stopped();
    broker_ends(has_successor ? BrokerEnd::kill : BrokerEnd::stop);
    std::optional<std::string> how;
    work_until(asked + stop_patience, [&] { return (how = broker_.ended()).has_value(); });
    broker_.kill();
    results_.stops.push_back({asked, load::Clock::now() - asked});
    if (how != "exit status 0") results_.bad_stops.push_back(how.value_or("no end within 30 s"));
}

void KillRun::broker_ends(BrokerEnd how) {
    serving_ = false;
    last_step_ = {};
    clients_.broker_ended(how, load::Clock::now());
    feed_.broker_ended();
}

void KillRun::set_up() {
    ask_for_rooms();
    if (options_.presence && options_.http != 0) feed_.begin();
    clients_.start();
    if (!work_until(load::Clock::now() + set_up_patience, [this] { return clients_.ready(); }))
        throw std::runtime_error(fmt::format(
            "the receivers could not subscribe within {:.0f} s{}{}", load::seconds(set_up_patience),
            clients_.refusal().empty() ? "" : "; the broker says: ", clients_.refusal()));
    began_ = results_.began = load::Clock::now();
    next_line_ = began_ + line_every;
    clients_.live();
}

/// The broker opens its ports one after the other, so this waits for the port of the HTTP API.
void KillRun::ask_for_rooms() {
    if (options_.kinds.count(Kind::room) == 0) return;
    work_until(load::Clock::now() + http_patience,
               [this] { return load::ask({.url = context_.http}).status != 0; });
    fill_rooms(context_);
}

std::uint32_t KillRun::ends() const {
    return static_cast<std::uint32_t>(results_.kills.size() + results_.stops.size());
}

/// Kills and stops take turns, beginning with a kill. If there are more of one sort, they are
/// spread evenly.
bool KillRun::stop_comes_next() const {
    return (results_.stops.size() + 1) * options_.kills <= results_.kills.size() * options_.stops;
}

/// Divides the time into equal parts, with one end of the broker in each. A part begins later if
/// the broker serves later.
void KillRun::end_at_random_moments() {
    const auto length = load::from_seconds(options_.seconds);
    const auto all = options_.kills + options_.stops;
    while (ends() < all) {
        const auto part = length / all;
        const Time begin = std::max(began_ + part * ends(), served_);
        end_at(begin + context_.random.between(Duration(), part));
    }
    work_until(began_ + length);
}

/// Sometimes the clients pause before the end. A busy broker writes old data to the disk with the
/// next message; a quiet broker may not have written them yet.
void KillRun::end_at(Time moment) {
    const bool quiet = context_.random.below(lulls) == 0;
    if (quiet) {
        work_until(moment - lull);
        clients_.pause(true);
    }
    work_until(moment);
    end_and_start();
    clients_.pause(false);
}

void KillRun::end_and_start() {
    if (kills_edge_next()) return kill_edge();
    if (stop_comes_next()) {
        stop_broker();
    } else {
        kill_broker();
        results_.kills.push_back(load::Clock::now());
        kill_while_starting();
    }
    if (!standby_ahead_) step_clock(ends());
    const Time started = load::Clock::now();
    start_broker(start_patience);
    results_.starts.push_back(load::Clock::now() - started);
    if (options_.kinds.count(Kind::retained) > 0) retained_.begin();
}

/// Sometimes kills the broker again while it starts.
void KillRun::kill_while_starting() {
    if (results_.kills.size() >= options_.kills || results_.starts.empty() ||
        context_.random.below(kills_while_starting) != 0)
        return;
    start_process();
    work_until(load::Clock::now() + context_.random.between(Duration(), results_.starts.back()));
    kill_broker();
    results_.kills.push_back(load::Clock::now());
}

/// Sets the clock for the broker's life after this many ends. For the last life, sets it to a time
/// when everything is due.
void KillRun::step_clock(std::uint32_t ends) {
    if (ends == options_.kills + options_.stops)
        clock_.step_to_latest();
    else
        clock_.step();
}

void KillRun::drain() {
    clients_.finish();
    await_quiet();
    if (context_.messages.missing() == 0) return;
    // Some brokers send the messages that they had forgotten only to a new connection.
    clients_.reconnect_receivers();
    await_quiet();
}

/// Waits until everything has arrived that will arrive.
void KillRun::await_quiet() {
    const Time begun = load::Clock::now();
    const auto& messages = context_.messages;
    const Time settled = options_.presence ? context_.presence.settled() : begun;
    const auto done = [&] {
        const Time now = load::Clock::now();
        const auto quiet = now - std::max({begun, messages.last_arrival(), messages.last_due()});
        return quiet > (messages.missing() == 0 ? quiet_at_the_end
                                                : quiet_before_loss * context_.options.slowness +
                                                      messages.own_delay(now)) &&
               clients_.idle() && now > settled;
    };
    work_until(std::max({begun, messages.last_due(), settled}) + drain_patience, done);
}

void KillRun::read_retained() {
    if (options_.kinds.count(Kind::retained) == 0) return;
    retained_.begin();
    work_until(load::Clock::now() + drain_patience, [this] { return !retained_.reading(); });
}

/// Lets the clients work until the deadline, or until `done()`. Returns whether it was done.
template <class Condition>
bool KillRun::work_until(Time deadline, Condition done) {
    for (;;) {
        note_stall(load::Clock::now());
        if (done()) return true;
        const Time now = load::Clock::now();
        if (now >= deadline) return false;
        if (now >= next_tick_) tick(now);
        loop_.run_once(std::min(deadline, next_tick_));
    }
}

void KillRun::work_until(Time deadline) {
    work_until(deadline, [] { return false; });
}

void KillRun::tick(Time now) {
    if (interruption_.take()) throw load::Interrupted("interrupted; nothing is judged");
    next_tick_ = now + tick_length;
    clients_.tick(now);
    retained_.tick(now);
    watch_broker();
    if (now >= next_judgement_) judge_presence(now);
    if (began_ != Time() && now >= next_line_) show_progress(now);
}

/// After a stall of this program, everything is seen late.
void KillRun::note_stall(Time now) {
    const Duration late = now - next_tick_;
    if (next_tick_ == Time() || late <= load::stall_limit) return;
    ++results_.own_stalls;
    results_.longest_stall = std::max(results_.longest_stall, late);
    context_.messages.stall(late, now);
    context_.presence.stall(late, now);
    next_tick_ = now;
}

/// A broker that ends by itself is started again, like one that is killed.
void KillRun::watch_broker() {
    if (!serving_) return;
    if (const auto how = broker_.standby_ended()) {
        fmt::print(stderr, "kill: the broker on standby ended by itself: {}\n", *how);
        results_.ends.push_back(*how);
        standby_ahead_.reset();
        have_standby();
    }
    const auto how = broker_.ended();
    if (!how) return;
    fmt::print(stderr, "kill: the broker ended by itself: {}\n", *how);
    results_.ends.push_back(*how);
    kill_broker();
    start_broker(start_patience);
}

void KillRun::judge_presence(Time now) {
    next_judgement_ = now + judge_presence_every;
    if (!serving_ || !options_.presence) return;
    feed_.read(now);
    const Time done = load::Clock::now();
    // The broker may have told its watchers meanwhile: their sockets are read first.
    if (done - now <= load::stall_limit) context_.presence.compare(done);
}

void KillRun::show_progress(Time now) {
    next_line_ = now + line_every;
    Counts all;
    for (const Kind kind : all_kinds) {
        const Counts& one = context_.messages.counts(kind);
        all.sent += one.sent;
        all.acknowledged += one.acknowledged;
        all.received += one.received;
    }
    fmt::print(
        stderr,
        "kill: {:.0f} s, {} of {} kills and stops, {} sent, {} acknowledged, {} received, {} of "
        "the acknowledged still to come\n",
        load::seconds(now - began_), ends(), options_.kills + options_.stops, all.sent,
        all.acknowledged, all.received, context_.messages.missing());
}

}  // namespace pulsegate::kill
