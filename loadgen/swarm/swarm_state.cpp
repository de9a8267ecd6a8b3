#include "loadgen/swarm/swarm_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/truth/mixing.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr std::string_view room_level = "room/";

constexpr std::size_t examples_of_a_worker = 10;

/// The number of separate servers among which clients are divided. With several transports they are
/// not divided, because there may be several servers of one transport and one of the other.
std::uint32_t separate_servers(const Assignment& assignment) {
    if (assignment.target.cluster) return 1;
    const auto& servers = assignment.target.servers;
    for (const ServerAddress& server : servers)
        if (server.transport != servers.front().transport) return 1;
    return static_cast<std::uint32_t>(std::max<std::size_t>(1, servers.size()));
}

/// For each group, the cluster nodes that its clients use in turn. Empty without a cluster.
std::vector<std::vector<std::size_t>> nodes_of_groups(const Assignment& assignment) {
    std::vector<std::vector<std::size_t>> nodes;
    if (!assignment.target.cluster) return nodes;
    const auto& servers = assignment.target.servers;
    for (const Group& group : assignment.scenario.groups) {
        auto& used = nodes.emplace_back();
        for (std::size_t at = 0; at < servers.size(); ++at)
            if (servers[at].transport == group.transport) used.push_back(at);
    }
    return nodes;
}

}  // namespace

SwarmState::SwarmState(Loop& the_loop, ClientOwner& owner, const Assignment& its_assignment,
                       const Profiles& profiles)
    : assignment(its_assignment),
      roster(assignment.scenario, assignment.seed, separate_servers(assignment)),
      closes{Scenario::server_tick, assignment.scenario.tolerance},
      loop(the_loop),
      host(the_loop, owner),
      topics_(fmt::format("loadgen/{:x}/", assignment.run)),
      nodes_(nodes_of_groups(assignment)),
      random_(mix(assignment.seed, assignment.worker)) {
    for (std::uint32_t number = assignment.worker; number < roster.clients();
         number += assignment.workers) {
        const auto its_group = roster.group_index(number);
        SwarmClient& client = clients.emplace_back(host, profiles.of(its_group), number, its_group);
        client.falls_silent = roster.falls_silent(number);
    }
}

void SwarmState::start(Time at) {
    phase_ = Phase::arriving;
    started_ = at;
    samples_.start(at);
    agenda.start(at);
}

void SwarmState::measure(Time at) {
    phase_ = Phase::measuring;
    measured_since_ = at;
}

bool SwarmState::crosses_nodes(std::uint32_t sender, std::uint32_t receiver) const {
    if (nodes_.empty()) return false;
    const auto node = [this](std::uint32_t client) {
        const auto& used = nodes_[roster.group_index(client)];
        return used[client % used.size()];
    };
    return node(sender) != node(receiver);
}

void SwarmState::enter(SwarmClient& client, State state) {
    const auto index = [](State of) { return static_cast<std::size_t>(of); };
    if (client.state != State::unborn) --counts_[index(client.state)];
    client.state = state;
    if (state != State::unborn) ++counts_[index(state)];
}

Duration SwarmState::limit_of(const SwarmClient& client) const {
    if (scenario().limit > Duration::zero()) return scenario().limit;
    return Duration(std::chrono::seconds(client.keepalive)) * 3 / 2;
}

void SwarmState::note_sends(SwarmClient& client) {
    const Time sent = client.mqtt.before_send();
    if (sent == client.last_send) return;
    client.oversleeping.sent(client.last_send, sent, limit_of(client));
    client.last_send = sent;
}

SilenceAtClose SwarmState::silence_of(const SwarmClient& client, Time now) const {
    return {now - client.mqtt.before_send(), now - client.mqtt.after_send(),
            now - loop.seen_until()};
}

bool SwarmState::starved(const SwarmClient& client, Time now) const {
    return was_starved(silence_of(client, now), limit_of(client)) ||
           client.oversleeping.explains_close(loop.seen_until(), closes.tick);
}

void SwarmState::give_example(std::string text) {
    if (examples_.size() < examples_of_a_worker) examples_.push_back(printable(std::move(text)));
}

void SwarmState::count_violation(const SwarmClient& client, std::string_view what, Time now) {
    at(now).add(Count::violations);
    give_example(fmt::format("the server broke the protocol towards {}: {}", who(client), what));
}

void SwarmState::mark(Time at, std::string text) {
    marks_.emplace_back(since_start(at), std::move(text));
}

bool SwarmState::is_topic_of(const Roster::Contact& contact, std::string_view topic) const {
    const auto skip = [&topic](std::string_view begin) {
        const bool begins = topic.starts_with(begin);
        if (begins) topic.remove_prefix(begin.size());
        return begins;
    };
    if (!skip(topics_) || (contact.is_room && !skip(room_level))) return false;
    return topic == fmt::format_int(contact.number).c_str();
}

std::string SwarmState::client_topic(std::uint32_t number) const {
    return topics_ + std::to_string(number);
}

std::string SwarmState::room_topic(std::uint32_t room) const {
    return topics_ + std::string(room_level) + std::to_string(room);
}

std::string who(const SwarmClient& client) { return fmt::format("client {}", client.number()); }

}  // namespace pulsegate::load
