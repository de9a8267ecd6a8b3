#include "loadgen/storm.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "loadgen/backoff.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// How long to open or close connections before reading again.
constexpr Duration turn = 1ms;

constexpr Duration report_every = 200ms;

constexpr int storm_niceness = 19;

bool says_busy(Reason reason) {
    switch (reason) {
        case Reason::server_busy:
        case Reason::server_unavailable:  // 3.1.1's return code 3, for server_busy too
        case Reason::quota_exceeded:
        case Reason::connection_rate_exceeded: return true;
        default: return false;
    }
}

}  // namespace

Storm::Storm(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target,
             std::uint64_t run, Report report)
    : Crowd(io, plan, std::move(target), run), report_(std::move(report)) {
    for (std::uint32_t number = plan_.established(); number < plan_.clients; ++number)
        clients_.emplace_back(io_, number, false);
}

void Storm::gather(Time start_of_run) {
    start_ramp(Clock::now());
    begin(start_of_run);
}

void Storm::strike(Time now) {
    struck_at_ = now;
    enter(Stage::vanishing, now);
    for (Client& client : clients_)
        if (client.stage == Client::Stage::talking) vanished_.push_back(&client);
    results_.storm.vanished = static_cast<std::uint32_t>(vanished_.size());
    vanish_some();
}

// -- time --

void Storm::take_turn(Time now) {
    if (stage_ == Stage::gathering) {
        ramp(now);
        if (ramped()) enter(Stage::ready, now);
    }
    if (stage_ == Stage::returning && now >= struck_at_ + plan_.options.storm_within)
        enter(Stage::over, now);
    if (now >= next_report_) report_status(now);
}

Time Storm::next_turn() const { return next_in_ramp(); }

void Storm::enter(Stage next, Time now) {
    stage_ = next;
    report_status(now);
}

void Storm::report_status(Time now) {
    next_report_ = now + report_every;
    report_({stage_, now, results_.connections.connected, results_.connections.failed, open_,
             results_.storm.back, packets_sent_, packets_received_});
}

// -- vanish and reconnect --

/// Calls `act` for as many of the vanished clients as fit into a turn. False: that was the last
/// one.
template <class Act>
bool Storm::some(Act act) {
    Time now = Clock::now();
    const Time end = now + turn;
    for (; next_ < vanished_.size() && now < end; now = Clock::now()) act(*vanished_[next_++], now);
    if (next_ < vanished_.size()) return true;
    next_ = 0;
    return false;
}

void Storm::vanish_some() {
    const bool more = some([this](Client& client, Time) {
        if (client.stage != Client::Stage::talking) return;  // lost in the meantime
        --open_;
        Wheel::cancel(client);
        client.vanish();
    });
    if (more) return asio::post(io_, [this] { vanish_some(); });

    const Time now = Clock::now();
    results_.storm.vanishing = now - struck_at_;
    enter(Stage::returning, now);
    return_some();
}

void Storm::return_some() {
    if (some([this](Client& client, Time now) { attempt(client, now); }))
        return asio::post(io_, [this] { return_some(); });
    const Time now = Clock::now();
    results_.storm.setting_out = now - struck_at_;
    end_if_settled(now);
}

void Storm::end_if_settled(Time now) {
    const auto& storm = results_.storm;
    if (stage_ == Stage::returning && storm.back + storm.refused == storm.vanished)
        enter(Stage::over, now);
}

void Storm::attempt(Client& client, Time now) {
    ++results_.storm.attempts;
    connect(client, now);
}

void Storm::logged_in(Client& client, Time now) {
    ++open_;
    if (stage_ != Stage::gathering) return came_back(client, now);
    settle(client, now);
    ramp(now);
}

void Storm::came_back(Client& client, Time now) {
    start_talking(client, now);
    auto& storm = results_.storm;
    if (stage_ != Stage::returning) return;
    ++storm.back;
    storm.took = now - struck_at_;
    storm.return_time.add(storm.took);
    storm.attempt_time.add(now - client.started_at);
    end_if_settled(now);
}

void Storm::is_due(Client& client, Time now) {
    if (client.stage == Client::Stage::talking) ping(client, now);
    if (client.stage == Client::Stage::waiting) attempt(client, now);
}

void Storm::received(Client& client, const Publish&, Time) {
    ++results_.messages.misdirected;
    give_example(fmt::format("{} received a message that was not for it", id_of(client.number)));
}

void Storm::lost(Client& client, Client::Stage stage, const std::string& cause) {
    if (stage == Client::Stage::talking) {
        --open_;
        return judge_lost_talker(client, cause);
    }
    stage_ == Stage::gathering ? fail(client, cause) : retry_later(client, cause);
}

void Storm::retry_later(Client& client, const std::string& cause) {
    auto& storm = results_.storm;
    const bool busy = says_busy(client.disconnect_reason);
    if (!busy && client.refused) {
        ++storm.refused;
        give_example(fmt::format("{} could not reconnect: {}", id_of(client.number), cause));
        return end_if_settled(Clock::now());
    }
    ++(busy ? storm.busy : storm.dropped);
    if (client.failed_attempts == 0) ++storm.retried;
    ++client.failed_attempts;
    client.stage = Client::Stage::waiting;
    plan_next(client, Clock::now() + backoff(client.failed_attempts, random(0, 1)));
}

// -- a thread of its own --

StormThread::StormThread(asio::io_context& home, const Plan& plan,
                         const asio::ip::tcp::endpoint& target, std::uint64_t run,
                         Storm::Report report)
    : storm_(io_, plan, target, run,
             [&home, report = std::move(report)](const Storm::Status& status) {
                 asio::post(home, [report, status] { report(status); });
             }) {}

void StormThread::gather(Time start_of_run) {
    asio::post(io_, [this, start_of_run] { storm_.gather(start_of_run); });
    thread_ = std::thread([this] {
        // In reality the clients of a storm have machines of their own: on one machine, its cost
        // must not be taken from the server and the established clients.
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), storm_niceness);
        io_.run();
    });
}

void StormThread::strike(Time now) {
    asio::post(io_, [this, now] { storm_.strike(now); });
}

const Results& StormThread::end() {
    if (!thread_.joinable()) return storm_.results();
    asio::post(io_, [this] { storm_.leave(); });
    thread_.join();
    return storm_.results();
}

}  // namespace pulsegate::load
