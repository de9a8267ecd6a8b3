#include "loadgen/torture/torture.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace pulsegate::torture {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto tick_length = 5ms;
constexpr auto line_every = 5s;
constexpr auto first_start_patience = 600s;  // it may have to be built
constexpr auto start_patience = 60s;
constexpr auto set_up_patience = 30s;
constexpr auto drain_patience = 30s;  // after the last delayed message is due
constexpr auto quiet_at_the_end = 1s;
constexpr auto quiet_before_loss = 4s;  // without arrivals: nothing more will come
constexpr std::uint16_t will_clients = 4;
constexpr std::uint16_t kills_while_starting = 10;  // one of so many

/// Two runs with one seed need different names, or the second would find the sessions of the first.
std::string name_of_run() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return fmt::format("{:x}", std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

Version version_of(const Options& options, std::size_t client) {
    if (options.v3_1_1 && options.v5_0) return client % 2 == 0 ? Version::v5_0 : Version::v3_1_1;
    return options.v5_0 ? Version::v5_0 : Version::v3_1_1;
}

}  // namespace

Torture::Torture(const Options& options)
    : options_(options),
      work_(io_.get_executor()),
      signals_(io_, SIGINT, SIGTERM),
      scene_{io_, options, name_of_run(), {}, Dice(options.seed), Backlog(options.receivers)},
      broker_(options.command, options.log),
      reader_(scene_, version_of(options, 0)) {
    signals_.async_wait([this](auto error, int) { interrupted_ = !error; });
    for (std::uint16_t i = 0; i < options.publishers; ++i)
        publishers_.push_back(std::make_unique<Publisher>(scene_, i, version_of(options, i)));
    // The habits go round, and each has receivers of both versions.
    for (std::uint16_t i = 0; i < options.receivers; ++i)
        receivers_.push_back(std::make_unique<Receiver>(scene_, i, version_of(options, i + i / 6)));
    if (options.kinds.count(Kind::will) > 0)
        for (std::uint16_t i = 0; i < will_clients; ++i)
            will_clients_.push_back(
                std::make_unique<WillClient>(scene_, i, version_of(options, i)));
}

Results Torture::run() {
    if (accepts_connections())
        throw std::runtime_error(
            fmt::format("port {} is in use: name a free one with --port, and "
                        "have the broker listen there",
                        options_.broker.port()));
    start_broker(first_start_patience);
    set_up();
    kill_at_random_moments();
    drain();
    read_retained();
    kill_broker();
    results_.book = std::move(scene_.book);
    return std::move(results_);
}

void Torture::start_broker(Duration patience) {
    broker_.start();
    const Time deadline = load::Clock::now() + patience;
    while (!accepts_connections()) {
        if (const auto how = broker_.ended())
            throw std::runtime_error(
                fmt::format("after {} kills the broker ended with {} before port {} was open; "
                            "--log FILE keeps what it says",
                            results_.kills.size(), *how, options_.broker.port()));
        if (load::Clock::now() > deadline)
            throw std::runtime_error(fmt::format(
                "after {} kills port {} was not open within {:.0f} s; --log FILE "
                "keeps what the broker says",
                results_.kills.size(), options_.broker.port(), load::seconds(patience)));
        work_until(load::Clock::now() + tick_length);
    }
    serving_ = true;
}

bool Torture::accepts_connections() {
    asio::ip::tcp::socket probe(io_);
    boost::system::error_code error;
    probe.connect(options_.broker, error);
    return !error;
}

void Torture::kill_broker() {
    serving_ = false;
    broker_.kill();
    for (auto& client : will_clients_) client->broker_was_killed();
}

void Torture::set_up() {
    for (auto& publisher : publishers_) publisher->start();
    for (auto& receiver : receivers_) receiver->start();
    const bool ready = work_until(load::Clock::now() + set_up_patience, [this] {
        return std::all_of(receivers_.begin(), receivers_.end(),
                           [](const auto& each) { return each->subscribed(); });
    });
    if (!ready)
        throw std::runtime_error(fmt::format(
            "the receivers could not subscribe within {:.0f} s{}{}", load::seconds(set_up_patience),
            receivers_.front()->refusal().empty() ? "" : "; the broker says: ",
            receivers_.front()->refusal()));
    began_ = results_.began = load::Clock::now();
    next_line_ = began_ + line_every;
    for (auto& publisher : publishers_) publisher->begin();
    for (auto& receiver : receivers_) receiver->live_as_it_likes();
    for (auto& client : will_clients_) client->begin();
}

/// One kill in each of equal parts of the time, or when the broker serves again, if that is later.
void Torture::kill_at_random_moments() {
    const auto length = load::from_seconds(options_.seconds);
    while (results_.kills.size() < options_.kills) {
        const auto part = length / options_.kills;
        work_until(began_ + part * results_.kills.size() + scene_.dice.between(Duration(), part));
        kill_and_start();
    }
    work_until(began_ + length);
}

void Torture::kill_and_start() {
    kill_broker();
    results_.kills.push_back(load::Clock::now());
    if (results_.kills.size() < options_.kills && !results_.starts.empty() &&
        scene_.dice.below(kills_while_starting) == 0) {
        broker_.start();
        work_until(load::Clock::now() + scene_.dice.between(Duration(), results_.starts.back()));
        kill_broker();
        results_.kills.push_back(load::Clock::now());
    }
    const Time started = load::Clock::now();
    start_broker(start_patience);
    results_.starts.push_back(load::Clock::now() - started);
    if (options_.kinds.count(Kind::retained) > 0) reader_.begin();
}

void Torture::drain() {
    for (auto& publisher : publishers_) publisher->finish();
    for (auto& receiver : receivers_) receiver->stay();
    for (auto& client : will_clients_) client->finish();
    await_quiet();
    if (scene_.book.missing() == 0) return;
    // Some brokers send only to a new connection what they had forgotten to send.
    for (auto& receiver : receivers_) receiver->reconnect();
    await_quiet();
}

/// Until everything has come that will come.
void Torture::await_quiet() {
    const Time begun = load::Clock::now();
    const auto& book = scene_.book;
    const auto idle = [](const auto& each) { return each->idle(); };
    const auto done = [&] {
        const Time now = load::Clock::now();
        const auto quiet = now - std::max({begun, book.last_arrival(), book.last_due()});
        return quiet > (book.missing() == 0 ? quiet_at_the_end : quiet_before_loss) &&
               std::all_of(publishers_.begin(), publishers_.end(), idle) &&
               std::all_of(will_clients_.begin(), will_clients_.end(), idle) &&
               std::all_of(receivers_.begin(), receivers_.end(),
                           [](const auto& each) { return each->online(); });
    };
    work_until(std::max(begun, book.last_due()) + drain_patience, done);
}

void Torture::read_retained() {
    if (options_.kinds.count(Kind::retained) == 0) return;
    reader_.begin();
    work_until(load::Clock::now() + drain_patience, [this] { return !reader_.reading(); });
}

/// Lets the clients work until then, or until it is so. Says whether it is so.
template <class Condition>
bool Torture::work_until(Time deadline, Condition done) {
    while (!done()) {
        if (interrupted_) throw Interrupted();
        const Time now = load::Clock::now();
        if (now >= deadline) return false;
        if (now >= next_tick_) tick(now);
        io_.run_one_until(std::min(deadline, next_tick_));
    }
    return true;
}

void Torture::work_until(Time deadline) {
    work_until(deadline, [] { return false; });
}

void Torture::tick(Time now) {
    next_tick_ = now + tick_length;
    for (auto& each : publishers_) each->tick(now);
    for (auto& each : receivers_) each->tick(now);
    for (auto& each : will_clients_) each->tick(now);
    reader_.tick(now);
    watch_broker();
    if (began_ != Time() && now >= next_line_) show_progress(now);
}

/// A broker that ends by itself is started again, like one that is killed.
void Torture::watch_broker() {
    if (!serving_) return;
    const auto how = broker_.ended();
    if (!how) return;
    fmt::print(stderr, "torture: the broker ended by itself: {}\n", *how);
    results_.ends.push_back(*how);
    kill_broker();
    start_broker(start_patience);
}

void Torture::show_progress(Time now) {
    next_line_ = now + line_every;
    Counts all;
    for (const Kind kind : all_kinds) {
        const Counts& one = scene_.book.counts(kind);
        all.sent += one.sent;
        all.acknowledged += one.acknowledged;
        all.received += one.received;
    }
    fmt::print(stderr,
               "torture: {:.0f} s, {} of {} kills, {} sent, {} acknowledged, {} received, {} of "
               "the acknowledged still to come\n",
               load::seconds(now - began_), results_.kills.size(), options_.kills, all.sent,
               all.acknowledged, all.received, scene_.book.missing());
}

}  // namespace pulsegate::torture
