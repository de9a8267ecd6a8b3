#include "loadgen/fleet.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "protocol/encode.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

constexpr Duration login_timeout = 10s;

/// How long to go on looking at silent clients that should be closed by now, to see how late it is.
constexpr Duration grace = 5s;

/// Even when everything has arrived, a duplicate may follow.
constexpr Duration settle = 200ms;

/// The timer fires at least this often, so that a stall of the generator is noticed.
constexpr Duration heartbeat = 10ms;
constexpr Duration glance_every = 200ms;

/// After a stall many messages are due at once; reading has its turn in between.
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

Fleet::Fleet(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target)
    : io_(io),
      plan_(plan),
      target_(std::move(target)),
      run_(std::random_device{}()),
      dice_(run_),
      timer_(io),
      ledger_(run_, plan.options.size, results_.messages),
      yet_to_fall_silent_(plan.silent_clients()),
      buffer_(std::make_unique<std::uint8_t[]>(buffer_size)) {
    for (std::uint32_t number = 0; number < plan_.clients; ++number)
        clients_.emplace_back(io_, number, plan_.falls_silent(number));
    talkers_.reserve(plan_.clients);
    results_.notes = plan_.notes;
}

void Fleet::run(Watch watch) {
    watch_ = std::move(watch);
    start_ = phase_start_ = seen_until_ = Clock::now();
    ramp_ = Schedule(start_, plan_.options.ramp);
    step();
    io_.run();
}

void Fleet::interrupt() {
    results_.interrupted = true;
    if (phase_ == Phase::ramping) start_running(Clock::now());
    if (phase_ == Phase::running) start_draining(Clock::now());
}

// ---- Time

void Fleet::step() {
    const Time now = Clock::now();
    wheel_.advance(tick(now), [this](Wheel::Node& node) {
        const Client& client = static_cast<Client&>(node);
        this_second_.emplace(client.due, client.number);
    });
    while (!this_second_.empty() && this_second_.top().first <= now) {
        const auto [due, number] = this_second_.top();
        this_second_.pop();
        if (clients_[number].due == due) attend(clients_[number], now);  // not planned anew since
    }

    if (phase_ == Phase::ramping) connect_due(now);
    if (phase_ == Phase::running) {
        send_due_messages(now);
        const bool over = now >= phase_start_ + plan_.options.duration;
        if (open_clients() == 0 || (over && silence_settled(now))) start_draining(now);
    }
    if (phase_ == Phase::draining) {
        const bool arrived =
            ledger_.empty() && (plan_.options.qos == QoS::at_most_once ||
                                results_.messages.acknowledged >= results_.messages.sent);
        const Time enough = phase_start_ + (arrived ? settle : plan_.options.drain);
        if (now >= enough) finish(now);
    }
    glance(now);
    if (phase_ != Phase::done) arm();
}

void Fleet::arm() {
    const Time now = Clock::now();
    Time next = now + heartbeat;
    if (phase_ == Phase::ramping && in_progress_ < plan_.in_progress)
        next = std::min(next, ramp_.next());
    if (phase_ == Phase::running) next = std::min(next, messages_.next());
    if (!this_second_.empty()) next = std::min(next, this_second_.top().first);

    const Time planned = std::max(next, now);
    timer_.expires_at(planned);
    timer_.async_wait([this, planned](boost::system::error_code error) {
        if (error) return;
        seen_until_ = planned;
        note_stall(planned, Clock::now());
        step();
    });
}

void Fleet::note_stall(Time planned, Time now) {
    const Duration late = now - planned;
    if (late <= stall) return;
    ++results_.stalls;
    results_.longest_stall = std::max(results_.longest_stall, late);
    if (results_.stalls > most_stall_notes) return;

    const Duration slack =
        plan_.limit - from_seconds(seconds(plan_.options.keepalive) * latest_ping);
    results_.notes.push_back(fmt::format(
        "the generator stalled for {}, {} after the start{}", show(late), show(planned - start_),
        late > slack ? ": longer than its clients can stay silent; closes that this caused are not "
                       "held against the server"
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
        if (silent_open_ > 0) length = std::max(length, last_judgement_ - phase_start_);
    }
    if (phase_ == Phase::draining) length = plan_.options.drain;
    watch_({phase_, now - phase_start_, length,
            packets_sent_ + packets_received_ - packets_at_phase_start_, open_clients(), results_});
}

Tick Fleet::tick(Time time) const { return static_cast<Tick>((time - start_) / server_tick); }

void Fleet::plan_next(Client& client, Time due) {
    client.due = due;
    if (tick(due) > wheel_.now()) {
        wheel_.schedule(client, tick(due));
    } else {
        wheel_.cancel(client);
        this_second_.emplace(due, client.number);
    }
}

void Fleet::attend(Client& client, Time now) {
    switch (client.stage) {
        case Client::Stage::connecting: return lose(client, "no connection within 10 s");
        case Client::Stage::logging_in: return lose(client, "no CONNACK within 10 s");
        case Client::Stage::subscribing: return lose(client, "no SUBACK within 10 s");
        case Client::Stage::talking:
            return now >= client.falls_silent_at ? fall_silent(client, now) : ping(client, now);
        case Client::Stage::unborn:
        case Client::Stage::silent:
        case Client::Stage::gone: return;
    }
}

// ---- The phases

// Returns how long the phase took that ends here.
Duration Fleet::enter(Phase next, Time now) {
    next_glance_ = now;  // a last one at the old phase, a first one at the new
    glance(now);
    next_glance_ = now;
    packets_at_phase_start_ = packets_sent_ + packets_received_;
    phase_ = next;
    return now - std::exchange(phase_start_, now);
}

void Fleet::start_running(Time now) {
    results_.connections.took = enter(Phase::running, now);
    results_.traffic.packets_sent = packets_sent_;
    results_.traffic.packets_received = packets_received_;
    cpu_at_start_ = cpu_used();
    messages_ = Schedule(now, plan_.messages);

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
    traffic.packets_sent = packets_sent_ - traffic.packets_sent;
    traffic.packets_received = packets_received_ - traffic.packets_received;
    traffic.cpu = cpu_used() - cpu_at_start_;
}

void Fleet::finish(Time now) {
    count_what_is_missing(now);
    enter(Phase::done, now);
    packet_.clear();
    encode(Disconnect{}, plan_.options.version, packet_);
    for (Client& client : clients_) {
        if (client.stage == Client::Stage::talking) send(client);
        if (client.stage != Client::Stage::gone) client.close();
    }
    io_.stop();
}

bool Fleet::silence_settled(Time now) const {
    if (yet_to_fall_silent_ > 0) return false;
    return silent_open_ == 0 || now >= last_judgement_ + grace;
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
                                 show(stamp.planned - start_)));
    });

    for (const Client& client : clients_) {
        if (!client.starved) messages.unacknowledged += client.unacknowledged;
        const bool waits = client.stage == Client::Stage::talking && client.pinged_at != Time();
        if (waits && !client.overdue_ping && now - client.pinged_at > ping_timeout)
            ++results_.pings.overdue;
        if (client.stage != Client::Stage::silent) continue;

        const Duration silence = now - client.after_send();
        if (silence <= limit_of(client) + server_tick + plan_.options.tolerance) {
            ++results_.silence.unjudged;
        } else {
            ++results_.silence.still_open;
            give_example(fmt::format("{} was still open {} after its last packet",
                                     id_of(client.number), show(silence)));
        }
    }
}

// ---- A client's life

void Fleet::connect_due(Time now) {
    while (ramp_.taken() < plan_.clients && ramp_.due(now) && in_progress_ < plan_.in_progress)
        connect(clients_[ramp_.take()], now);
    if (ramp_.taken() == plan_.clients && in_progress_ == 0) start_running(now);
}

void Fleet::connect(Client& client, Time now) {
    ++in_progress_;
    client.stage = Client::Stage::connecting;
    client.started_at = now;
    plan_next(client, now + login_timeout);

    std::optional<asio::ip::address> source;
    if (plan_.loopback) source = source_of(client.number);
    if (const auto trouble = client.open(target_, source); !trouble.empty())
        return lose(client, trouble);
    client.socket().async_connect(target_, [this, &client](boost::system::error_code error) {
        if (error == asio::error::operation_aborted) return;
        if (client.stage != Client::Stage::connecting) return;
        if (error) return lose(client, error.message());
        log_in(client);
    });
}

void Fleet::log_in(Client& client) {
    client.stage = Client::Stage::logging_in;
    client.keepalive = static_cast<std::uint16_t>(plan_.options.keepalive.count());
    const std::string id = id_of(client.number);
    Connect packet;
    packet.version = plan_.options.version;
    packet.keepalive = client.keepalive;
    packet.client_id = id;
    packet_.clear();
    encode(packet, packet_);
    send(client);
    await_packets(client);
}

void Fleet::start_talking(Client& client, Time now) {
    client.stage = Client::Stage::talking;
    --in_progress_;
    ++results_.connections.connected;
    results_.connections.time.add(now - client.started_at);
    if (!client.will_fall_silent) {
        client.place = static_cast<std::uint32_t>(talkers_.size());
        talkers_.push_back(&client);
    }
    // The first ping comes at any time, as if the client had been here before the run: so pings are
    // spread evenly from the start, however steep the ramp.
    plan_next(client, now + from_seconds(client.keepalive * random(0, latest_ping)));
}

void Fleet::ping(Client& client, Time now) {
    if (client.pinged_at == Time()) {
        client.pinged_at = Clock::now();
    } else if (!client.overdue_ping && now - client.pinged_at > ping_timeout) {
        client.overdue_ping = true;
        ++results_.pings.overdue;
    }
    ++results_.pings.sent;
    packet_.clear();
    encode(Pingreq{}, packet_);
    send(client);
    if (client.stage == Client::Stage::gone) return;

    const Time next = now + from_seconds(client.keepalive * random(earliest_ping, latest_ping));
    plan_next(client, std::min(next, client.falls_silent_at));
}

// The last sign of life is a ping of its own, so that the limit counts from a moment that was drawn
// at random, not from where the ramp or the ping schedule happened to be.
void Fleet::fall_silent(Client& client, Time now) {
    ping(client, now);
    if (client.stage == Client::Stage::gone) return;
    client.stage = Client::Stage::silent;
    client.due = {};
    wheel_.cancel(client);
    --yet_to_fall_silent_;
    ++silent_open_;
    ++results_.silence.silent;
    last_judgement_ = std::max(last_judgement_, client.after_send() + limit_of(client) +
                                                    server_tick + plan_.options.tolerance);
}

void Fleet::send(Client& client) {
    ++packets_sent_;
    const bool waiting = client.has_rest();
    const Time before = client.before_send();
    if (const auto trouble = client.send(packet_); !trouble.empty()) return lose(client, trouble);
    if (before != Time() && client.before_send() - before >= limit_of(client))
        client.overslept_until = client.before_send();
    if (client.has_rest() && !waiting) await_room(client);
}

void Fleet::await_room(Client& client) {
    client.socket().async_wait(Socket::wait_write,
                               [this, &client](boost::system::error_code error) {
                                   if (error || client.stage == Client::Stage::gone) return;
                                   if (const auto trouble = client.send_rest(); !trouble.empty())
                                       return lose(client, trouble);
                                   if (client.has_rest()) await_room(client);
                               });
}

void Fleet::await_packets(Client& client) {
    if (client.stage == Client::Stage::gone) return;
    client.socket().async_wait(Socket::wait_read, [this, &client](boost::system::error_code error) {
        if (error || client.stage == Client::Stage::gone) return;
        receive(client);
        await_packets(client);
    });
}

// ---- Messages

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

void Fleet::remove_talker(Client& client) {
    talkers_.back()->place = client.place;
    talkers_[client.place] = talkers_.back();
    talkers_.pop_back();
}

// ---- Names and numbers

std::uint32_t Fleet::open_clients() const {
    return static_cast<std::uint32_t>(talkers_.size()) + yet_to_fall_silent_ + silent_open_;
}

Duration Fleet::limit_of(const Client& client) const {
    if (plan_.options.limit) return *plan_.options.limit;
    return Duration(std::chrono::seconds(client.keepalive)) * 3 / 2;
}

std::string Fleet::topic_of(std::uint32_t client) const {
    return fmt::format("load/{:08x}/{}", run_, client);
}

std::string Fleet::id_of(std::uint32_t client) const {
    return fmt::format("load-{:08x}-{}", run_, client);
}

// 127.0.0.1 and upwards, over the whole of 127.0.0.0/8 if need be.
asio::ip::address Fleet::source_of(std::uint32_t client) const {
    return asio::ip::address_v4(asio::ip::address_v4::loopback().to_uint() +
                                client % plan_.sources);
}

double Fleet::random(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(dice_);
}

}  // namespace pulsegate::load
