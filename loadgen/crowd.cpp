#include "loadgen/crowd.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "protocol/encode.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

constexpr Duration login_timeout = 10s;
constexpr Duration ping_timeout = 10s;

/// The timer fires at least this often, so that a stall of the generator is noticed.
constexpr Duration heartbeat = 10ms;

constexpr std::size_t most_examples = 10;

}  // namespace

Crowd::Crowd(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target,
             std::uint64_t run)
    : io_(io),
      plan_(plan),
      run_(run),
      dice_(std::random_device{}()),
      target_(std::move(target)),
      timer_(io),
      buffer_(std::make_unique<std::uint8_t[]>(buffer_size)) {}

// -- time --

void Crowd::begin(Time start) {
    start_ = start;
    seen_until_ = Clock::now();
    step();
}

void Crowd::step() {
    const Time now = Clock::now();
    wheel_.advance(tick(now), [this](Wheel::Node& node) {
        Client& client = static_cast<Client&>(node);
        this_second_.emplace(client.due, &client);
    });
    while (!this_second_.empty() && this_second_.top().first <= now) {
        const auto [due, client] = this_second_.top();
        this_second_.pop();
        if (client->due == due) attend(*client, now);  // not rescheduled since
    }
    take_turn(now);
    if (!stopped_) arm();
}

void Crowd::arm() {
    const Time now = Clock::now();
    Time next = std::min(now + heartbeat, next_turn());
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

void Crowd::note_stall(Time planned, Time now) {
    const Duration late = now - planned;
    if (late <= stall) return;
    ++results_.stalls;
    results_.longest_stall = std::max(results_.longest_stall, late);
    stalled(planned, late);
}

Tick Crowd::tick(Time time) const { return static_cast<Tick>((time - start_) / server_tick); }

void Crowd::plan_next(Client& client, Time due) {
    client.due = due;
    if (tick(due) > wheel_.now()) {
        wheel_.schedule(client, tick(due));
    } else {
        wheel_.cancel(client);
        this_second_.emplace(due, &client);
    }
}

void Crowd::attend(Client& client, Time now) {
    switch (client.stage) {
        case Client::Stage::connecting: return lose(client, "no connection within 10 s");
        case Client::Stage::logging_in: return lose(client, "no CONNACK within 10 s");
        case Client::Stage::subscribing: return lose(client, "no SUBACK within 10 s");
        default: return is_due(client, now);
    }
}

// -- the ramp --

void Crowd::start_ramp(Time now) { ramp_ = Schedule(now, plan_.options.ramp); }

void Crowd::ramp(Time now) {
    while (ramp_.taken() < clients_.size() && ramp_.due(now) && in_progress_ < plan_.in_progress) {
        ++in_progress_;
        connect(clients_[ramp_.take()], now);
    }
}

Time Crowd::next_in_ramp() const {
    const bool room = ramp_.taken() < clients_.size() && in_progress_ < plan_.in_progress;
    return room ? ramp_.next() : Time::max();
}

void Crowd::settle(Client& client, Time now) {
    --in_progress_;
    ++results_.connections.connected;
    results_.connections.time.add(now - client.started_at);
    start_talking(client, now);
}

void Crowd::fail(Client& client, const std::string& cause) {
    --in_progress_;
    ++results_.connections.failed;
    give_example(fmt::format("{} could not connect: {}", id_of(client.number), cause));
}

// -- the stages of a client --

void Crowd::connect(Client& client, Time now) {
    client.stage = Client::Stage::connecting;
    client.started_at = now;
    plan_next(client, now + login_timeout);

    std::optional<asio::ip::address> source;
    if (plan_.loopback) source = source_of(client.number);
    if (const auto trouble = client.open(target_, source); !trouble.empty())
        return lose(client, trouble);
    const auto connected = [this, &client,
                            generation = client.generation()](boost::system::error_code error) {
        if (generation != client.generation()) return;
        if (error) return lose(client, error.message());
        log_in(client);
    };
    client.socket().async_connect(target_, connected);
}

void Crowd::log_in(Client& client) {
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

void Crowd::start_talking(Client& client, Time now) {
    client.stage = Client::Stage::talking;
    // The first ping is at a random time, as if the client had been connected before the run, so
    // that pings are spread evenly from the start, however steep the ramp.
    plan_next(client, now + from_seconds(client.keepalive * random(0, latest_ping)));
}

void Crowd::ping(Client& client, Time now) {
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
    if (client.away()) return;

    const Time next = now + from_seconds(client.keepalive * random(earliest_ping, latest_ping));
    plan_next(client, std::min(next, client.falls_silent_at));
}

void Crowd::send(Client& client) {
    ++packets_sent_;
    const bool waiting = client.has_rest();
    const Time before = client.before_send();
    if (const auto trouble = client.send(packet_); !trouble.empty()) return lose(client, trouble);
    if (before != Time() && client.before_send() - before >= limit_of(client))
        client.overslept_until = client.before_send();
    if (client.has_rest() && !waiting) await_room(client);
}

void Crowd::await_room(Client& client) {
    const auto has_room = [this, &client,
                           generation = client.generation()](boost::system::error_code error) {
        if (error || generation != client.generation()) return;
        if (const auto trouble = client.send_rest(); !trouble.empty()) return lose(client, trouble);
        if (client.has_rest()) await_room(client);
    };
    client.socket().async_wait(Socket::wait_write, has_room);
}

void Crowd::await_packets(Client& client) {
    if (client.away()) return;
    const auto has_some = [this, &client,
                           generation = client.generation()](boost::system::error_code error) {
        if (error || generation != client.generation()) return;
        receive(client);
        await_packets(client);
    };
    client.socket().async_wait(Socket::wait_read, has_some);
}

void Crowd::disconnect_all() {
    packet_.clear();
    encode(Disconnect{}, plan_.options.version, packet_);
    stopped_ = true;
    for (Client& client : clients_) {
        if (client.stage == Client::Stage::talking) send(client);
        if (client.stage != Client::Stage::gone) client.close();
    }
    io_.stop();
}

// -- packets of the server --

void Crowd::receive(Client& client) {
    std::optional<Time> read_at;  // the clock is read once for all packets of a read
    const auto trouble = client.receive({buffer_.get(), buffer_size}, plan_.options.version,
                                        [&](const Packet& packet) {
                                            if (!read_at) read_at = Clock::now();
                                            handle(client, packet, *read_at);
                                        });
    if (!trouble.empty()) lose(client, trouble);
}

void Crowd::handle(Client& client, const Packet& packet, Time now) {
    ++packets_received_;
    std::visit([&](const auto& it) { on(client, it, now); }, packet);
}

void Crowd::on(Client& client, const Connack& packet, Time) {
    if (client.stage != Client::Stage::logging_in) return lose(client, "unexpected CONNACK");
    if (packet.reason != Reason::success) {
        client.refused = true;
        client.disconnect_reason = packet.reason;
        return lose(client, fmt::format("refused: {}", name(packet.reason)));
    }
    if (const auto keepalive = packet.properties.number(Property::server_keep_alive);
        keepalive && *keepalive > 0)
        client.keepalive = results_.server_keepalive = static_cast<std::uint16_t>(*keepalive);

    client.stage = Client::Stage::subscribing;
    const std::string topic = topic_of(client.number);
    Subscribe subscribe;
    subscribe.packet_id = client.next_packet_id();
    subscribe.filters.push_back({topic, {.qos = plan_.options.qos}});
    packet_.clear();
    encode(subscribe, plan_.options.version, packet_);
    send(client);
}

void Crowd::on(Client& client, const Suback& packet, Time now) {
    if (client.stage != Client::Stage::subscribing) return lose(client, "unexpected SUBACK");
    if (packet.reasons.empty() || is_error(packet.reasons.front()))
        return lose(client, "subscription refused");
    logged_in(client, now);
}

void Crowd::on(Client& client, const Publish& packet, Time now) {
    received(client, packet, now);
    if (packet.qos == QoS::at_most_once) return;
    Puback acknowledgement;
    acknowledgement.packet_id = packet.packet_id;
    packet_.clear();
    encode(acknowledgement, plan_.options.version, packet_);
    send(client);
}

void Crowd::on(Client& client, const Puback& packet, Time) { acknowledged(client, packet); }

void Crowd::on(Client& client, const Pingresp&, Time now) {
    ++results_.pings.answered;
    if (client.pinged_at == Time()) return;
    const Duration took = now - client.pinged_at;
    results_.pings.time.add(took);
    ping_answered(client.pinged_at, took);
    if (took > ping_timeout && !client.overdue_ping) ++results_.pings.overdue;
    client.pinged_at = {};
    client.overdue_ping = false;
}

void Crowd::on(Client& client, const Disconnect& packet, Time) {
    client.disconnect_reason = packet.reason;
}

template <class Unexpected>
void Crowd::on(Client& client, const Unexpected&, Time) {
    lose(client, "the server sent a packet that only clients send");
}

// -- failures --

void Crowd::lose(Client& client, const std::string& cause) {
    if (client.away() || stopped_) return;
    const auto stage = client.stage;
    Wheel::cancel(client);
    client.close();
    lost(client, stage, cause);
}

void Crowd::judge_lost_talker(Client& client, const std::string& cause) {
    const Close close = close_of(client, Clock::now());
    if (load::starved(close, limit_of(client)) || overslept(client)) {
        client.starved = true;
        ++results_.starved;
        return;
    }
    ++results_.false_offline;
    std::string words = cause;
    if (client.disconnect_reason != Reason::success)
        words += fmt::format(" ({})", name(client.disconnect_reason));
    give_example(fmt::format("{} from {} was false offline {} after its last packet: {}",
                             id_of(client.number), source_of(client.number).to_string(),
                             show(close.since_before_send), words));
}

void Crowd::count_overdue_pings(Time now) {
    for (const Client& client : clients_) {
        const bool waits = client.stage == Client::Stage::talking && client.pinged_at != Time();
        if (waits && !client.overdue_ping && now - client.pinged_at > ping_timeout)
            ++results_.pings.overdue;
    }
}

Close Crowd::close_of(const Client& client, Time now) const {
    return {now - client.before_send(), now - client.after_send(), now - seen_until_};
}

// A client that sends again after more than its limit may have been closed before the server
// received that. The close can take a tick of the server and the time until the generator reads it.
bool Crowd::overslept(const Client& client) const {
    return client.overslept_until != Time() &&
           seen_until_ <= client.overslept_until + server_tick + stall;
}

void Crowd::give_example(std::string text) {
    if (results_.examples.size() < most_examples) results_.examples.push_back(std::move(text));
}

// -- names and numbers --

Duration Crowd::limit_of(const Client& client) const {
    if (plan_.options.limit) return *plan_.options.limit;
    return Duration(std::chrono::seconds(client.keepalive)) * 3 / 2;
}

std::string Crowd::topic_of(std::uint32_t client) const {
    return fmt::format("load/{:08x}/{}", run_, client);
}

std::string Crowd::id_of(std::uint32_t client) const {
    return fmt::format("load-{:08x}-{}", run_, client);
}

// 127.0.0.1 and upwards, within 127.0.0.0/8.
asio::ip::address Crowd::source_of(std::uint32_t client) const {
    return asio::ip::address_v4(asio::ip::address_v4::loopback().to_uint() +
                                client % plan_.sources);
}

double Crowd::random(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(dice_);
}

}  // namespace pulsegate::load
