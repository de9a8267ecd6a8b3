#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "loadgen/scenario/scenario.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// The clients of a run and their relations. They follow from the scenario and the seed, so that
/// each worker knows them for all clients without communication.
class Roster {
public:
    /// `servers`: how many separate servers there are; the nodes of a cluster count as one. Client
    /// n uses server n modulo their number, and only communicates with clients of its own server.
    Roster(const Scenario& scenario, std::uint64_t seed, std::uint32_t servers = 1);

    const Scenario& scenario() const { return scenario_; }
    std::uint32_t clients() const { return clients_; }
    std::uint16_t group_index(std::uint32_t number) const;
    const Group& group(std::uint32_t number) const { return scenario_.groups[group_index(number)]; }

    /// Silent clients are spread evenly over their group.
    bool falls_silent(std::uint32_t number) const;

    /// Does it write messages, if its group does, and do others write to it?
    bool talks(std::uint32_t number) const;

    bool same_server(std::uint32_t one, std::uint32_t other) const {
        return one % servers_ == other % servers_;
    }

    /// The user or room that a client writes to: its contacts are numbered from 0, and each is a
    /// flow.
    struct Contact {
        bool is_room = false;
        std::uint32_t number = 0;  ///< of a client, or of a room
        QoS qos = QoS::at_most_once;
    };
    std::uint16_t contacts(std::uint32_t number) const;
    /// Nothing if there is no client or room that it could write to.
    std::optional<Contact> contact(std::uint32_t number, std::uint16_t slot) const;
    /// The payload size of each message, at least `Message::size`.
    std::uint32_t message_size(std::uint32_t number, std::uint16_t slot,
                               std::uint32_t sequence) const;

    /// Rooms are numbered over all groups.
    std::uint32_t rooms() const { return first_room_.back(); }
    std::uint32_t rooms_each(std::uint32_t number) const;
    std::vector<std::uint32_t> rooms_of(std::uint32_t number) const;
    /// The index of this room in `rooms_of`.
    std::optional<std::uint32_t> which_room(std::uint32_t number, std::uint32_t room) const;

    /// The users that it watches.
    std::vector<std::uint32_t> watched_by(std::uint32_t number) const;

private:
    std::uint32_t room_of(const Group& group, std::size_t at, std::uint32_t number,
                          std::uint32_t which) const;
    std::optional<std::uint32_t> choose_client(std::uint32_t sender, std::size_t group,
                                               std::uint64_t dice) const;

    const Scenario& scenario_;
    const std::uint64_t seed_;
    const std::uint32_t servers_;
    std::uint32_t clients_ = 0;
    std::vector<std::uint32_t> first_;       ///< first client of each group, and the end
    std::vector<std::uint32_t> first_room_;  ///< likewise
};

}  // namespace pulsegate::load
