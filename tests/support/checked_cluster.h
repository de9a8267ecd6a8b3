#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/packet.h"
#include "tests/support/broker_cluster.h"
#include "tests/support/session_model.h"

namespace pulsegate {

/// A client: what a good MQTT library remembers.
struct PlayedClient {
    struct Answer {
        PacketType type;
        std::uint16_t id;
        std::vector<Reason> reasons;

        bool operator==(const Answer&) const = default;
    };
    struct Due {
        PacketType type;
        std::uint16_t id;
    };

    std::string name;
    std::string user;
    std::string inbox;
    unsigned shard = 0;
    std::unique_ptr<KeptLink> link{};
    Version version = Version::v3_1_1;
    std::uint16_t aliases = 0;  ///< that it allows
    std::uint32_t largest_packet = 0;
    std::map<std::uint16_t, std::string> topics{};      ///< by alias, of what it receives
    std::map<std::uint16_t, std::string> own_topics{};  ///< of what it sends
    std::vector<Due> due{};                             ///< what it has still to acknowledge
    std::set<std::uint16_t> received{};                 ///< QoS 2, up to PUBREL
    std::map<std::uint16_t, Note> sent{};               ///< QoS 2, up to PUBREL
    std::vector<Answer> answers{};                      ///< in this turn
    std::optional<bool> session_present{};
    std::uint16_t last_id = 0;

    bool there() const { return link && link->session && !link->ending; }
};

/// Real brokers and the model beside each other. The player tells both what happens, and ends
/// the turn: the model then judges what the clients got, and what the brokers forwarded and hold.
/// Throws Broken when they are wrong.
class CheckedCluster {
public:
    /// `exact`: the model knows exactly what waits for each client.
    CheckedCluster(const BrokerSettings& settings, unsigned shards, bool exact)
        : brokers(settings, shards),
          model(settings, shards),
          exact_(exact),
          longest_queue_(settings.max_queued_messages) {}

    void connect(PlayedClient& client, const Hello& hello);
    /// The broker has ended the connection, or is about to.
    void end(PlayedClient& client, bool takes_will_back);
    /// Only the broker is told.
    void handle(PlayedClient& client, const Packet& packet);
    void finish_turn();
    /// Ends the turn, in which the client must have got these answers, and no others.
    void expect(PlayedClient& client, const std::vector<PlayedClient::Answer>& right);
    /// Was its PUBLISH answered with 0x97? Then that is taken.
    bool take_refusal(PlayedClient& client, std::uint16_t id);
    /// Messages that full queues and other limits have cost so far.
    std::uint64_t dropped_for_limits() const {
        return brokers.sum(&Counters::dropped_queue_full) +
               brokers.sum(&Counters::dropped_no_inbox) + brokers.sum(&Counters::not_retained);
    }

    /// The oldest message between two shards.
    void deliver(BrokerCluster::Pair shards);
    void tick();

    /// All sessions have ended: nothing may be left.
    void check_empty();

    /// Keeps what happens, for the report of a failure.
    template <class... Args>
    void note(fmt::format_string<Args...> format, Args&&... args) {
        journal_.push_back(fmt::format("{:5} {:7} ", step, brokers.now) +
                           fmt::format(format, std::forward<Args>(args)...));
        if (journal_.size() > 100) journal_.pop_front();
    }
    /// The last of it.
    std::string journal() const;

    BrokerCluster brokers;
    SessionModel model;
    std::deque<PlayedClient> clients;
    int step = 0;

private:
    void read(PlayedClient& client);
    void read(PlayedClient& client, const Packet& packet);
    void read(PlayedClient& client, const Publish& publish);
    void check_forwarded();
    void check_counts();
    void check_losses(std::uint64_t& right, std::uint64_t Counters::*counter, const char* cause);
    void check_expired(std::size_t waiting);

    const bool exact_;
    const std::size_t longest_queue_;
    std::map<MessageRef, const Note*> notes_;
    std::deque<std::string> journal_;
};

}  // namespace pulsegate
