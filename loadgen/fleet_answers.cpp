// What the server says to the fleet's clients, and what is made of a connection that it ended.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "loadgen/fleet.h"
#include "protocol/encode.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t most_examples = 10;

}  // namespace

void Fleet::receive(Client& client) {
    std::optional<Time> read_at;  // one look at the clock serves all packets of a read
    const auto trouble = client.receive({buffer_.get(), buffer_size}, plan_.options.version,
                                        [&](const Packet& packet) {
                                            if (!read_at) read_at = Clock::now();
                                            handle(client, packet, *read_at);
                                        });
    if (!trouble.empty()) lose(client, trouble);
    if (phase_ == Phase::ramping) connect_due(Clock::now());
}

void Fleet::handle(Client& client, const Packet& packet, Time now) {
    ++packets_received_;
    std::visit([&](const auto& it) { on(client, it, now); }, packet);
}

void Fleet::on(Client& client, const Connack& packet, Time) {
    if (client.stage != Client::Stage::logging_in) return lose(client, "unexpected CONNACK");
    if (packet.reason != Reason::success)
        return lose(client, fmt::format("refused: {}", name(packet.reason)));
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

void Fleet::on(Client& client, const Suback& packet, Time now) {
    if (client.stage != Client::Stage::subscribing) return lose(client, "unexpected SUBACK");
    if (packet.reasons.empty() || is_error(packet.reasons.front()))
        return lose(client, "subscription refused");
    start_talking(client, now);
}

void Fleet::on(Client& client, const Publish& packet, Time now) {
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

    if (packet.qos == QoS::at_most_once) return;
    Puback acknowledgement;
    acknowledgement.packet_id = packet.packet_id;
    packet_.clear();
    encode(acknowledgement, plan_.options.version, packet_);
    send(client);
}

void Fleet::on(Client& client, const Puback& packet, Time) {
    if (is_error(packet.reason) || client.unacknowledged == 0) return;
    --client.unacknowledged;
    ++results_.messages.acknowledged;
}

void Fleet::on(Client& client, const Pingresp&, Time now) {
    ++results_.pings.answered;
    if (client.pinged_at == Time()) return;
    const Duration took = now - client.pinged_at;
    results_.pings.time.add(took);
    if (took > ping_timeout && !client.overdue_ping) ++results_.pings.overdue;
    client.pinged_at = {};
    client.overdue_ping = false;
}

void Fleet::on(Client& client, const Disconnect& packet, Time) { client.farewell = packet.reason; }

template <class Unexpected>
void Fleet::on(Client& client, const Unexpected&, Time) {
    lose(client, "the server sent a packet that only clients send");
}

// ---- What went wrong

void Fleet::lose(Client& client, const std::string& cause) {
    if (client.stage == Client::Stage::gone || phase_ == Phase::done) return;
    switch (client.stage) {
        case Client::Stage::talking: lose_talker(client, cause); break;
        case Client::Stage::silent: lose_silent(client); break;
        default: lose_newcomer(client, cause); break;
    }
    Wheel::cancel(client);
    client.close();
}

void Fleet::lose_newcomer(Client& client, const std::string& cause) {
    --in_progress_;
    ++results_.connections.failed;
    give_example(fmt::format("{} could not connect: {}", id_of(client.number), cause));
}

void Fleet::lose_talker(Client& client, const std::string& cause) {
    const Time now = Clock::now();
    if (client.will_fall_silent) {
        if (client.falls_silent_at != Time::max()) --yet_to_fall_silent_;
    } else {
        remove_talker(client);
    }

    const Close close = close_of(client, now);
    if (load::starved(close, limit_of(client)) || overslept(client)) {
        client.starved = true;
        ++results_.starved;
        return;
    }
    ++results_.false_offline;
    std::string words = cause;
    if (client.farewell != Reason::success) words += fmt::format(" ({})", name(client.farewell));
    give_example(fmt::format("{} from {} was false offline {} after its last packet: {}",
                             id_of(client.number), source_of(client.number).to_string(),
                             show(close.since_before_send), words));
}

void Fleet::lose_silent(Client& client) {
    const Time now = Clock::now();
    auto& silence = results_.silence;
    --silent_open_;
    if (client.farewell != Reason::success) ++silence.farewells[std::string(name(client.farewell))];

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

Close Fleet::close_of(const Client& client, Time now) const {
    return {now - client.before_send(), now - client.after_send(), now - seen_until_};
}

// A client that sends again after more than its limit may have been closed before the server got
// that. The news of it can take a tick of the server, and our own way through what is unread.
bool Fleet::overslept(const Client& client) const {
    return client.overslept_until != Time() &&
           seen_until_ <= client.overslept_until + server_tick + stall;
}

void Fleet::give_example(std::string text) {
    if (results_.examples.size() < most_examples) results_.examples.push_back(std::move(text));
}

}  // namespace pulsegate::load
