#include "loadgen/swarm/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "loadgen/prefetch.h"
#include "loadgen/truth/message.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// After a stall, many messages are due at once. At most this many are sent before the loop reads
/// again.
constexpr int messages_a_turn = 256;

/// If a client naps or is about to come back, another client writes instead, chosen with at most
/// this many tries. A client that the server keeps out is not replaced.
constexpr int most_choices = 20;

std::uint64_t tag_of(std::size_t slot, std::uint32_t number) {
    return std::uint64_t{slot} << 32 | number;
}

SwarmClient::Flow* flow_of(SwarmClient& client, std::uint64_t tag) {
    const auto slot = static_cast<std::size_t>(tag >> 32);
    return slot < client.flows.size() ? &client.flows[slot] : nullptr;
}

}  // namespace

Chat::Chat(SwarmState& state) : state_(state), writers_(state.scenario().groups.size()) {
    for (SwarmClient& client : state.clients) {
        for (std::uint16_t slot = 0; slot < state.roster.contacts(client.number()); ++slot)
            if (const auto contact = state.roster.contact(client.number(), slot))
                client.flows.push_back({*contact, {}});
        client.flows.shrink_to_fit();
        if (!client.flows.empty()) writers_[client.group].clients.push_back(&client);
    }
}

void Chat::go(Time at) {
    const auto& groups = state_.scenario().groups;
    const auto& assignment = state_.assignment;
    std::vector<std::uint32_t> of_all(groups.size());
    for (std::uint32_t number = 0; number < state_.roster.clients(); ++number)
        if (state_.roster.contacts(number) > 0) ++of_all[state_.roster.group_index(number)];

    for (std::size_t index = 0; index < groups.size(); ++index) {
        Writers& writers = writers_[index];
        if (writers.clients.empty()) continue;
        writers.next = choose_next(writers);
        const double part = static_cast<double>(writers.clients.size()) / of_all[index];
        writers.times = PlannedRate(at, groups[index].messages * part, state_.scenario().peaks,
                                    static_cast<double>(assignment.worker) / assignment.workers);
    }
}

Time Chat::next() const {
    Time next = Time::max();
    if (state_.phase() != SwarmState::Phase::measuring) return next;
    for (const Writers& writers : writers_) next = std::min(next, writers.times.next());
    return next;
}

void Chat::turn(Time now) {
    if (state_.phase() != SwarmState::Phase::measuring) return;
    for (Writers& writers : writers_)
        for (int count = 0; count < messages_a_turn && writers.times.due(now); ++count) {
            const Time planned = writers.times.take();
            if (SwarmClient* sender = choose(writers, now)) send(*sender, planned, now);
        }
}

SwarmClient* Chat::choose(Writers& writers, Time now) {
    for (int count = 0; count < most_choices; ++count) {
        SwarmClient& chosen = *std::exchange(writers.next, choose_next(writers));
        if (!chosen.away_as_planned(now)) return &chosen;
    }
    return nullptr;
}

SwarmClient* Chat::choose_next(const Writers& writers) {
    SwarmClient* next = writers.clients[state_.choose(writers.clients.size())];
    prefetch(next, sizeof *next);
    return next;
}

void Chat::send(SwarmClient& sender, Time planned, Time now) {
    Measurements& second = state_.at(planned);
    second.add(Count::messages_planned);
    const auto slot = static_cast<std::uint16_t>(state_.choose(sender.flows.size()));
    auto& [contact, sent] = sender.flows[slot];
    const std::uint32_t size = state_.roster.message_size(sender.number(), slot, sent.next());
    write_message({state_.assignment.run, state_.common(planned), sender.number(), contact.number,
                   slot, sent.next()},
                  size, payload_);
    const std::string topic =
        contact.is_room ? state_.room_topic(contact.number) : state_.client_topic(contact.number);
    const std::uint32_t number = sent.next();
    // The number is taken before the publish, so that everything that the publish leads to knows
    // the message.
    if (sender.online()) {
        state_.note_sends(sender);
        sent.take(state_.common(now));
    }
    const std::uint64_t tag = tag_of(slot, number);
    if (contact.qos > QoS::at_most_once) sender.read_proof.asks(tag);
    if (!sender.online() ||
        !sender.mqtt.publish({.qos = contact.qos, .topic = topic, .payload = payload_}, tag)) {
        if (sent.next() > number) sent.doubt(number);
        sender.read_proof.gives_up(tag);
        second.add(Count::messages_unsent);
        return;
    }
    state_.note_sends(sender);
    second.add(Count::messages_sent);
    second.add(Timing::send_lag, std::max(Clock::now() - planned, Duration::zero()));
}

void Chat::acknowledged(SwarmClient& client, std::uint64_t tag, Reason reason, Time sent,
                        Time now) {
    auto* flow = flow_of(client, tag);
    if (!flow) return;
    const auto number = static_cast<std::uint32_t>(tag);
    flow->sent.acknowledged(number);
    Measurements& second = state_.at(now);
    if (is_error(reason)) {
        client.read_proof.gives_up(tag);  // the packet may not have been sent
        second.add(Count::publishes_refused);
        flow->sent.doubt(number);
        state_.give_example(who(client) + " published to client or room " +
                            std::to_string(flow->contact.number) +
                            " and was refused: " + std::string(name(reason)));
        return;
    }
    client.read_proof.answered(tag);
    second.add(Count::acknowledged);
    second.add(Timing::acknowledgement, now - sent);
    const Duration took = state_.loop.seen_until() - state_.own_delay(now) - sent;
    const bool on_this_connection = client.online() && sent >= client.online_since;
    if (!on_this_connection || took <= state_.late_after()) return;
    second.add(Count::acknowledged_late);
    state_.give_example(
        fmt::format("message {} of {} to client or room {} was acknowledged after {}", number,
                    who(client), flow->contact.number, show(took)));
}

void Chat::overtaken(SwarmClient& client, std::uint64_t tag, Time now) {
    state_.at(now).add(Count::acknowledged_disorderly);
    const auto* flow = flow_of(client, tag);
    if (!flow) return;
    state_.give_example(
        fmt::format("message {} of {} to client or room {} was acknowledged behind a later one",
                    static_cast<std::uint32_t>(tag), who(client), flow->contact.number));
}

void Chat::in_doubt(SwarmClient& client, std::uint64_t tag) {
    if (auto* flow = flow_of(client, tag)) flow->sent.doubt(static_cast<std::uint32_t>(tag));
}

void Chat::connection_broke(SwarmClient& client) {
    const bool kept = state_.group(client).kept_session;
    for (auto& [contact, sent] : client.flows) sent.connection_ended(contact.qos, kept);
}

void Chat::disconnects(SwarmClient& client) {
    const bool kept = state_.group(client).kept_session;
    for (auto& [contact, sent] : client.flows) sent.left(contact.qos, kept);
}

void Chat::drain() {
    for (SwarmClient& client : state_.clients) {
        if (client.online()) continue;
        for (auto& [contact, sent] : client.flows)
            if (contact.qos > QoS::at_most_once) sent.doubt_unacknowledged();
    }
}

void Chat::judge(Time now) {
    for (const SwarmClient& client : state_.clients) {
        const auto open = client.mqtt.in_flight() + client.mqtt.waiting();
        if (!client.online() || open == 0) continue;
        state_.at(now).add(Count::unacknowledged, open);
        state_.give_example(who(client) +
                            " has messages without an acknowledgement: " + std::to_string(open));
    }
}

}  // namespace pulsegate::load
