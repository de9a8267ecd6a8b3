#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/encode.h"
#include "protocol/packet.h"
#include "server/clock.h"
#include "server/counters.h"
#include "server/message.h"
#include "server/routing/router.h"
#include "server/session/catch_up.h"
#include "server/session/link.h"
#include "server/session/presence.h"
#include "server/session/publication.h"
#include "server/session/session.h"

namespace pulsegate {

/// Who is the user of a client: its CONNECT username, or its client id.
enum class UserFrom : std::uint8_t { username, client_id };

/// What a broker promises and allows.
struct BrokerSettings {
    Millis idle_timeout = 30'000;
    bool strict_idle_timeout = false;
    UserFrom user_from = UserFrom::username;
    std::size_t max_packet_size = 256 * 1024;
    std::size_t output_budget = 1024 * 1024;
    std::size_t max_subscriptions = 1000;
    Millis forget_after = 24 * 3600 * 1000;
};

/// What a broker needs of the world around it.
class Surroundings {
public:
    /// To the brokers of all other shards.
    virtual void forward(const MessageRef& message) = 0;
    virtual void record(PresenceChange change) = 0;
    virtual void ask(PresenceQuestion question) = 0;

protected:
    ~Surroundings() = default;
};

/// The session side of one shard: who is logged in, what they subscribe to, and what a packet of
/// theirs does. It speaks to clients through Links and to the rest through Surroundings; it has no
/// socket, no thread and no clock.
class Broker {
public:
    Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Counters& counters,
           Surroundings& surroundings);
    ~Broker();

    /// The shard that a client belongs to. A client that has no name yet stays here.
    unsigned home(const Connect& connect) const;
    static unsigned home(std::string_view user, unsigned shards);

    /// Answers a CONNECT. On success `link.session` is set and the link's limit with it.
    void login(Link& link, const Connect& connect, Millis now);

    /// Answers a CONNECT with a refusal and ends the link.
    void refuse(Link& link, const Connect& connect, Reason reason, const char* why);

    /// Any other packet of a client that is logged in.
    void handle(Session& session, const Packet& packet);

    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now);

    /// The link's backlog has become empty.
    void drained(Session& session);

    /// A message published on another shard.
    void deliver(const MessageRef& message);

    /// One page of presence for a subscriber of this or another shard.
    PresencePage answer(const PresenceQuestion& question, Millis now) const;
    void continue_catch_up(const PresencePage& page);

    /// The user as JSON, if known here.
    std::optional<std::string> describe(std::string_view user, Millis now) const;

    /// Once a second.
    void tick();

    /// Everyone goes offline, because the gateway stops; the connections are still there to hear
    /// it.
    void announce_shutdown(Millis now);

    const Presence& presence() const { return presence_; }
    /// How much has been looked at since the beginning, in entries of the router.
    std::uint64_t work() const { return router_.work(); }
    std::size_t catching_up() const { return catching_up_.size(); }
    std::size_t sessions() const { return sessions_.size(); }
    std::size_t subscriptions() const { return router_.subscriptions(); }

private:
    struct Key {
        const User& user;
        std::string_view client;
    };
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(const Key& key) const;
        std::size_t operator()(const Session* session) const;
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const Session* a, const Session* b) const { return a == b; }
        bool operator()(const Key& key, const Session* session) const;
        bool operator()(const Session* session, const Key& key) const {
            return (*this)(key, session);
        }
    };

    std::string_view user_name(const Connect& connect, std::string_view client) const;
    std::string assign_client_id(const Connect& connect) const;
    void take_over(Session& session, Link& link, Millis now);
    void accept(Session& session, const Connect& connect, bool assigned);
    Millis agree_on_silence(const Connect& connect, PropertyList& told) const;
    MessageRef make_will(const Connect& connect) const;
    void clear(Session& session);

    void on_publish(Session& session, const Publish& publish);
    void on_puback(Session& session, const Puback& puback);
    void on_subscribe(Session& session, const Subscribe& subscribe);
    void on_unsubscribe(Session& session, const Unsubscribe& unsubscribe);
    Reason subscribe(Session& session, const SubscribeFilter& wanted, std::uint32_t identifier);

    void publish(const MessageRef& message, const Session* publisher);
    void deliver_here(const MessageRef& message, const Session* publisher);
    void deliver(Session& session, const MessageRef& message, Publication& publication, QoS qos,
                 bool retain, const std::vector<std::uint32_t>& identifiers);
    void transmit(Session& session, const MessageRef& message, Publication& publication, QoS qos,
                  bool retain, const std::vector<std::uint32_t>& identifiers);
    void refill_window(Session& session);

    void announce(const User& user, Millis now, const Device& device);
    /// Null if the user's name is too long for a topic.
    MessageRef presence_message(const User& user, Millis now) const;

    void start_catch_up(Session& session, std::string_view filter, QoS qos,
                        std::uint32_t identifier);
    bool keeps_up(const Session& session) const;
    void fall_behind(Session& session, std::uint64_t version);
    void add_wish(Session& session, CatchUp::Wish wish);
    void begin_wish(Session& session);
    void end_wish(Session& session);
    void ask(Session& session);
    void tell(Session& session, const MessageRef& message);
    void end_catch_up(Session& session, std::string_view filter);
    void end_catch_up(Session& session);

    template <class AnyPacket>
    void send(Session& session, AnyPacket packet);

    const BrokerSettings& settings_;
    const unsigned shard_;
    const unsigned shards_;
    Counters& counters_;
    Surroundings& surroundings_;

    Presence presence_;
    Router router_;
    boost::unordered_flat_set<Session*, Hash, Equal> sessions_;
    boost::unordered_flat_map<std::uint64_t, Session*> catching_up_;  ///< by their question
    std::uint64_t next_question_ = 1;
};

template <class AnyPacket>
void Broker::send(Session& session, AnyPacket packet) {
    Buffer bytes;
    encode(packet, session.version, bytes);
    if (session.max_packet_size != 0 && bytes.size() > session.max_packet_size) {
        // Words may be left out where the client has no room for them (MQTT 5.0, 3.1.2.11.4).
        packet.properties = {};
        bytes.clear();
        encode(packet, session.version, bytes);
    }
    counters_.count_out(static_cast<PacketType>(static_cast<std::uint8_t>(bytes[0]) >> 4));
    session.link->send(bytes);
}

}  // namespace pulsegate
