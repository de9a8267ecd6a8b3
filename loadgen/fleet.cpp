#include "loadgen/fleet.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <utility>

#include "protocol/encode.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// How long to wait for the close of silent clients that is overdue, to measure how late it is.
constexpr Duration grace = 5s;

/// Wait for duplicates even when every message has arrived.
constexpr Duration settle_time = 200ms;

constexpr Duration glance_every = 200ms;

/// After a stall many messages are due at once; read between batches of this size.
constexpr int messages_a_step = 256;

constexpr std::size_t most_stall_notes = 3;

Duration cpu_used() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto spent = [](const timeval& time) {
        return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return spent(usage.ru_utime) + spent(usage.ru_stime);
}

}  // namespace

Fleet::Fleet(asio::io_context& io, const Plan& plan, const asio::ip::tcp::endpoint& target)
    : Crowd(io, plan, target, std::random_device{}()),
      periods_(results_.quiet, results_.in_storm),
      ledger_(run_, plan.options.size, results_.messages, periods_),
      yet_to_fall_silent_(plan.silent_clients()) {
    for (std::uint32_t number = 0; number < plan_.established(); ++number)
        clients_.emplace_back(io_, number, plan_.falls_silent(number));
    talkers_.reserve(clients_.size());
    results_.notes = plan_.notes;
    if (plan_.storm > 0)
        storm_.emplace(io_, plan_, target, run_,
                       [this](const Storm::Status& status) { on_storm(status); });
}

void Fleet::run(Watch watch) {
    watch_ = std::move(watch);
    phase_start_ = Clock::now();
    start_ramp(phase_start_);
    begin(phase_start_);
    io_.run();
}

void Fleet::interrupt() {
    results_.interrupted = true;
    if (phase_ == Phase::ramping) start_running(Clock::now());
    if (phase_ == Phase::running) start_draining(Clock::now());
}

// -- time --

void Fleet::take_turn(Time now) {
    if (phase_ == Phase::ramping) keep_ramping(now);
    if (phase_ == Phase::running) {
        strike_if_due(now);
        send_due_messages(now);
        const bool over = now >= phase_start_ + plan_.options.duration && storm_settled();
        if (open_clients() == 0 || (over && silence_settled(now))) start_draining(now);
    }
    if (phase_ == Phase::draining) {
        const Time enough =
            phase_start_ + (everything_arrived() ? settle_time : plan_.options.drain);
        if (now >= enough) finish(now);
    }
    glance(now);
}

Time Fleet::next_turn() const {
    if (phase_ == Phase::ramping) return next_in_ramp();
    if (phase_ == Phase::running) return messages_.next();
    return Time::max();
}

void Fleet::stalled(Time planned, Duration late) {
    if (results_.stalls > most_stall_notes) return;
    const Duration slack =
        plan_.limit - from_seconds(seconds(plan_.options.keepalive) * latest_ping);
    results_.notes.push_back(fmt::format(
        "the generator stalled for {}, {} after the start{}", show(late), show(planned - start()),
        late > slack ? ": longer than its clients may be silent; closes because of it do not count "
                       "against the server"
                     : "; latencies include it"));
}

void Fleet::glance(Time now) {
    if (now < next_glance_) return;
    next_glance_ = now + glance_every;
    if (!watch_) return;

    Duration length{};
    if (phase_ == Phase::ramping) length = from_seconds(plan_.clients / plan_.options.ramp);
    if (phase_ == Phase::running) {
        length = plan_.options.duration;
        if (yet_to_fall_silent_ > 0) length = std::max(length, plan_.judged_after());
        if (!storm_settled()) length = std::max(length, plan_.options.storm_after);
        if (silent_open_ > 0) length = std::max(length, last_judgement_ - phase_start_);
    }
    if (phase_ == Phase::draining) length = plan_.options.drain;
    watch_({phase_, now - phase_start_, length,
            sent_by_all() + received_by_all() - packets_at_phase_start_,
            open_clients() + storm_status_.open, storm_status_, results_});
}

// -- the phases --

void Fleet::keep_ramping(Time now) {
    ramp(now);
    if (!ramped()) return;
    if (!storm_) return start_running(now);
    if (!std::exchange(gathering_, true)) storm_->gather(start());
}

// Returns the duration of the phase that ends here.
Duration Fleet::enter(Phase next, Time now) {
    next_glance_ = now;  // the last one of the old phase and the first one of the new
    glance(now);
    next_glance_ = now;
    packets_at_phase_start_ = sent_by_all() + received_by_all();
    phase_ = next;
    return now - std::exchange(phase_start_, now);
}

void Fleet::start_running(Time now) {
    results_.connections.took = enter(Phase::running, now);
    results_.traffic.packets_sent = sent_by_all();
    results_.traffic.packets_received = received_by_all();
    cpu_at_start_ = cpu_used();
    messages_ = Schedule(now, plan_.messages);
    if (storm_) periods_.begin(now);

    yet_to_fall_silent_ = 0;
    for (Client& client : clients_) {
        if (!client.will_fall_silent || client.stage != Client::Stage::talking) continue;
        ++yet_to_fall_silent_;
        client.falls_silent_at =
            now + plan_.options.silent_after + from_seconds(random(0, seconds(plan_.silent_over)));
        if (client.falls_silent_at < client.due) plan_next(client, client.falls_silent_at);
    }
}

void Fleet::start_draining(Time now) {
    auto& traffic = results_.traffic;
    traffic.ran = enter(Phase::draining, now);
    traffic.packets_sent = sent_by_all() - traffic.packets_sent;
    traffic.packets_received = received_by_all() - traffic.packets_received;
    traffic.cpu = cpu_used() - cpu_at_start_;
}

void Fleet::finish(Time now) {
    count_what_is_missing(now);
    enter(Phase::done, now);
    disconnect_all();
    if (storm_) results_.add_storm(storm_->end());
}

bool Fleet::silence_settled(Time now) const {
    if (yet_to_fall_silent_ > 0) return false;
    return silent_open_ == 0 || now >= last_judgement_ + grace;
}

bool Fleet::everything_arrived() const {
    return ledger_.empty() && (plan_.options.qos == QoS::at_most_once ||
                               results_.messages.acknowledged >= results_.messages.sent);
}

void Fleet::count_what_is_missing(Time now) {
    auto& messages = results_.messages;
    messages.planned = messages_.taken();
    ledger_.for_each_missing([&](const Stamp& stamp) {
        if (clients_[stamp.sender].starved || clients_[stamp.receiver].starved) {
            ++messages.excused;
            return;
        }
        ++messages.lost;
        give_example(fmt::format("message {} from {} to {}, planned {} after the start, was lost",
                                 stamp.sequence, id_of(stamp.sender), id_of(stamp.receiver),
                                 show(stamp.planned - start())));
    });

    count_overdue_pings(now);
    for (const Client& client : clients_) {
        if (!client.starved) messages.unacknowledged += client.unacknowledged;
        if (client.stage == Client::Stage::silent) count_still_open(client, now);
    }
}

void Fleet::count_still_open(const Client& client, Time now) {
    const Duration silence = now - client.after_send();
    if (silence <= limit_of(client) + server_tick + plan_.options.tolerance) {
        ++results_.silence.unjudged;
        return;
    }
    ++results_.silence.still_open;
    give_example(fmt::format("{} was still open {} after its last packet", id_of(client.number),
                             show(silence)));
}

// -- the storm --

void Fleet::on_storm(const Storm::Status& status) {
    const bool just_over =
        status.stage == Storm::Stage::over && storm_status_.stage != Storm::Stage::over;
    if (just_over) periods_.end(status.at);
    storm_status_ = status;
    if (phase_ == Phase::ramping && status.stage != Storm::Stage::gathering)
        start_running(Clock::now());
}

void Fleet::strike_if_due(Time now) {
    if (!storm_ || struck_ || now < phase_start_ + plan_.options.storm_after) return;
    struck_ = true;
    periods_.strike(now);
    storm_->strike(now);
}

bool Fleet::storm_settled() const { return !storm_ || storm_status_.stage == Storm::Stage::over; }

// -- the stages of a client --

void Fleet::logged_in(Client& client, Time now) {
    settle(client, now);
    if (!client.will_fall_silent) {
        client.place = static_cast<std::uint32_t>(talkers_.size());
        talkers_.push_back(&client);
    }
    if (phase_ == Phase::ramping) keep_ramping(now);
}

void Fleet::is_due(Client& client, Time now) {
    if (client.stage != Client::Stage::talking) return;
    now >= client.falls_silent_at ? fall_silent(client, now) : ping(client, now);
}

// The last packet is an extra ping, so that the limit counts from a random moment, not from one of
// the ramp or the ping schedule.
void Fleet::fall_silent(Client& client, Time now) {
    ping(client, now);
    if (client.away()) return;
    client.stage = Client::Stage::silent;
    client.due = {};
    wheel_.cancel(client);
    --yet_to_fall_silent_;
    ++silent_open_;
    ++results_.silence.silent;
    last_judgement_ = std::max(last_judgement_, client.after_send() + limit_of(client) +
                                                    server_tick + plan_.options.tolerance);
}

void Fleet::lost(Client& client, Client::Stage stage, const std::string& cause) {
    switch (stage) {
        case Client::Stage::talking: return lose_talker(client, cause);
        case Client::Stage::silent: return lose_silent(client);
        default: return fail(client, cause);
    }
}

void Fleet::lose_talker(Client& client, const std::string& cause) {
    if (client.will_fall_silent) {
        if (client.falls_silent_at != Time::max()) --yet_to_fall_silent_;
    } else {
        remove_talker(client);
    }
    judge_lost_talker(client, cause);
}

void Fleet::lose_silent(Client& client) {
    const Time now = Clock::now();
    auto& silence = results_.silence;
    --silent_open_;
    if (client.disconnect_reason != Reason::success)
        ++silence.disconnect_reasons[std::string(name(client.disconnect_reason))];

    const Close close = close_of(client, now);
    const Timing timing = overslept(client)
                              ? Timing::unclear
                              : judge(close, limit_of(client), plan_.options.tolerance);
    if (timing != Timing::unclear) silence.expiry.add(close.since_before_send);
    switch (timing) {
        case Timing::in_time: ++silence.in_time; return;
        case Timing::unclear: ++silence.unclear; return;
        case Timing::early: ++silence.early; break;
        case Timing::late: ++silence.late; break;
    }
    give_example(fmt::format("{} was closed {} after its last packet; right is {} to {}",
                             id_of(client.number), show(close.since_before_send),
                             show(limit_of(client)), show(limit_of(client) + server_tick)));
}

// -- messages --

void Fleet::send_due_messages(Time now) {
    for (int count = 0; count < messages_a_step && messages_.due(now); ++count)
        send_message(messages_.planned(messages_.take()));
}

void Fleet::send_message(Time planned) {
    if (talkers_.size() < 2) {
        ++(results_.starved > 0 ? results_.messages.excused : results_.messages.unsent);
        return;
    }
    const auto some = [this](std::size_t count) {
        return std::uniform_int_distribution<std::size_t>(0, count - 1)(dice_);
    };
    const auto from = some(talkers_.size());
    const auto to = (from + 1 + some(talkers_.size() - 1)) % talkers_.size();
    Client& sender = *talkers_[from];
    const std::uint32_t receiver = talkers_[to]->number;

    ledger_.post(sender.number, receiver, planned, Clock::now(), payload_);
    const std::string topic = topic_of(receiver);
    Publish publish;
    publish.qos = plan_.options.qos;
    publish.topic = topic;
    publish.payload = payload_;
    if (publish.qos != QoS::at_most_once) {
        publish.packet_id = sender.next_packet_id();
        ++sender.unacknowledged;
    }
    packet_.clear();
    encode(publish, plan_.options.version, packet_);
    send(sender);
}

void Fleet::received(Client& client, const Publish& packet, Time now) {
    switch (ledger_.arrive(client.number, as_bytes(packet.payload), now)) {
        case Ledger::Arrival::first: break;
        case Ledger::Arrival::again:
            give_example(fmt::format("{} received a message twice", id_of(client.number)));
            break;
        case Ledger::Arrival::not_ours:
            give_example(
                fmt::format("{} received a message that was not for it", id_of(client.number)));
            break;
    }
}

void Fleet::acknowledged(Client& client, const Puback& packet) {
    if (is_error(packet.reason) || client.unacknowledged == 0) return;
    --client.unacknowledged;
    ++results_.messages.acknowledged;
}

void Fleet::ping_answered(Time sent, Duration took) {
    if (auto* period = periods_.of(sent)) period->ping.add(took);
}

void Fleet::remove_talker(Client& client) {
    talkers_.back()->place = client.place;
    talkers_[client.place] = talkers_.back();
    talkers_.pop_back();
}

// -- names and numbers --

std::uint32_t Fleet::open_clients() const {
    return static_cast<std::uint32_t>(talkers_.size()) + yet_to_fall_silent_ + silent_open_;
}

}  // namespace pulsegate::load
