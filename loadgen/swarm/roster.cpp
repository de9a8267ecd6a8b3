#include "loadgen/swarm/roster.h"

#include <algorithm>
#include <cassert>

#include "loadgen/truth/message.h"
#include "loadgen/truth/mixing.h"

namespace pulsegate::load {

namespace {

/// The purpose of a random number. Each purpose has its own numbers.
enum Purpose : std::uint64_t { for_contact, for_room, for_qos, for_size, for_watched };

std::uint32_t silent_among(std::uint32_t clients, double share) {
    return static_cast<std::uint32_t>(clients * share + 1e-9);
}

}  // namespace

Roster::Roster(const Scenario& scenario, std::uint64_t seed, std::uint32_t servers)
    : scenario_(scenario), seed_(seed), servers_(servers) {
    std::uint32_t rooms = 0;
    for (const Group& group : scenario.groups) {
        first_.push_back(clients_);
        first_room_.push_back(rooms);
        clients_ += group.clients;
        rooms += group.rooms;
    }
    first_.push_back(clients_);
    first_room_.push_back(rooms);
}

std::uint16_t Roster::group_index(std::uint32_t number) const {
    assert(number < clients_);
    const auto behind = std::ranges::upper_bound(first_, number);
    return static_cast<std::uint16_t>(behind - first_.begin() - 1);
}

bool Roster::falls_silent(std::uint32_t number) const {
    const auto at = group_index(number);
    const double share = scenario_.groups[at].silent;
    const std::uint32_t place = number - first_[at];
    return silent_among(place + 1, share) > silent_among(place, share);
}

bool Roster::talks(std::uint32_t number) const {
    const Group& its = group(number);
    return its.hostile == Hostile::none && !its.storm && !falls_silent(number);
}

std::uint16_t Roster::contacts(std::uint32_t number) const {
    const Group& its = group(number);
    if (its.to_what == Group::To::nobody || its.messages <= 0 || !talks(number)) return 0;
    return static_cast<std::uint16_t>(std::clamp(its.contacts, 1u, 65'535u));
}

std::optional<Roster::Contact> Roster::contact(std::uint32_t number, std::uint16_t slot) const {
    const Group& its = group(number);
    Contact contact;
    const double share = fraction_of(mix(seed_, for_qos, number, slot));
    if (share >= its.qos[0]) contact.qos = QoS::at_least_once;
    if (share >= its.qos[0] + its.qos[1]) contact.qos = QoS::exactly_once;
    if (its.qos[2] <= 0 && contact.qos == QoS::exactly_once)
        contact.qos = its.qos[1] > 0 ? QoS::at_least_once : QoS::at_most_once;

    if (its.to_what == Group::To::clients) {
        const auto chosen = choose_client(number, its.to, mix(seed_, for_contact, number, slot));
        if (!chosen) return {};
        contact.number = *chosen;
        return contact;
    }
    if (its.to_what != Group::To::rooms || scenario_.groups[its.to].rooms == 0) return {};
    contact.is_room = true;
    const Group& hosts = scenario_.groups[its.to];
    const bool own = group_index(number) == its.to && slot < hosts.rooms_each;
    contact.number =
        own ? room_of(hosts, its.to, number, slot)
            : first_room_[its.to] +
                  static_cast<std::uint32_t>(mix(seed_, for_room, number, slot) % hosts.rooms);
    return contact;
}

// If the dice choose a client that can't be used, takes the next one that can: clients that fall
// silent are few, and spread evenly.
std::optional<std::uint32_t> Roster::choose_client(std::uint32_t sender, std::size_t group,
                                                   std::uint64_t dice) const {
    const std::uint32_t size = scenario_.groups[group].clients;
    if (size == 0) return {};
    const auto start = static_cast<std::uint32_t>(dice % size);
    for (std::uint32_t step = 0; step < size; ++step) {
        const std::uint32_t candidate = first_[group] + (start + step) % size;
        if (candidate != sender && same_server(candidate, sender) && talks(candidate))
            return candidate;
    }
    return {};
}

std::uint32_t Roster::message_size(std::uint32_t number, std::uint16_t slot,
                                   std::uint32_t sequence) const {
    const auto& size = group(number).size;
    const auto least = std::max<std::uint32_t>(size.least, Message::size);
    const auto most = std::max(size.most, least);
    if (least == most) return least;
    return least + static_cast<std::uint32_t>(mix(seed_, for_size, number, slot, sequence) %
                                              (most - least + 1));
}

std::uint32_t Roster::room_of(const Group& group, std::size_t at, std::uint32_t number,
                              std::uint32_t which) const {
    const std::uint64_t place = number - first_[at];
    return first_room_[at] +
           static_cast<std::uint32_t>((place * group.rooms_each + which) % group.rooms);
}

std::uint32_t Roster::rooms_each(std::uint32_t number) const {
    const Group& its = group(number);
    return std::min(its.rooms_each, its.rooms);
}

std::vector<std::uint32_t> Roster::rooms_of(std::uint32_t number) const {
    const auto at = group_index(number);
    const Group& its = scenario_.groups[at];
    std::vector<std::uint32_t> rooms;
    for (std::uint32_t which = 0; which < rooms_each(number); ++which)
        rooms.push_back(room_of(its, at, number, which));
    return rooms;
}

std::optional<std::uint32_t> Roster::which_room(std::uint32_t number, std::uint32_t room) const {
    const auto at = group_index(number);
    const Group& its = scenario_.groups[at];
    for (std::uint32_t which = 0; which < std::min(its.rooms_each, its.rooms); ++which)
        if (room_of(its, at, number, which) == room) return which;
    return {};
}

std::vector<std::uint32_t> Roster::watched_by(std::uint32_t number) const {
    const Group& its = group(number);
    std::vector<std::uint32_t> watched;
    if (its.watches == 0) return watched;
    const std::uint32_t size = scenario_.groups[its.watched].clients;
    const auto start = static_cast<std::uint32_t>(mix(seed_, for_watched, number) % size);
    // Takes neighbours from a random client on, so that all are different and the watchers are
    // spread evenly.
    for (std::uint32_t step = 0; step < size && watched.size() < its.watches; ++step) {
        const std::uint32_t candidate = first_[its.watched] + (start + step) % size;
        if (same_server(candidate, number)) watched.push_back(candidate);
    }
    return watched;
}

}  // namespace pulsegate::load
