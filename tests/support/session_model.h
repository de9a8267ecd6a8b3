#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/packet.h"
#include "protocol/properties.h"
#include "server/base/clock.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// The broker violated the standard.
class Broken : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) {
    throw Broken(fmt::format(format, std::forward<Args>(args)...));
}

/// A published message as the model knows it.
struct Note {
    std::string topic;
    std::string payload;  ///< unique, but for the empty one
    QoS qos = QoS::at_most_once;
    bool retain = false;
    std::optional<std::uint32_t> message_expiry;  ///< its Message Expiry Interval
    std::string publisher;
    std::string user;  ///< of the publisher
    std::optional<Millis> expires;
    std::uint64_t number = 0;  ///< in the order of publishing

    bool expired(Millis now) const { return expires && now > *expires; }
};

/// One copy of it, for one client.
struct Copy {
    const Note* note;
    QoS qos;
    bool retain;
    std::multiset<std::uint32_t> identifiers;
    std::uint16_t packet_id = 0;
    bool without_identifiers = false;  ///< 3.1.1: any identifiers will do
    bool by_inbox = false;             ///< to the inbox, and no subscription selects it
};

struct ModelWill {
    Note note;
    std::uint32_t delay = 0;
};

/// The fields of a CONNECT.
struct Hello {
    Version version = Version::v3_1_1;
    bool clean = true;
    std::uint32_t expiry = 0;
    std::uint16_t receive_maximum = 65'535;
    std::uint16_t aliases = 0;
    std::uint32_t largest_packet = 0;
    std::optional<ModelWill> will;
};

struct ModelSubscription {
    SubscribeOptions options;
    std::uint32_t identifier = 0;
    bool settled = false;  ///< a shared one: its group's shard knows of it
    std::uint64_t since = 0;
};

struct RetainedTerms {
    SubscribeOptions options;
    std::uint32_t identifier;
};

/// Retained messages that a new subscription must be sent.
struct RetainedRequest {
    std::string filter;
    std::vector<RetainedTerms> terms;  ///< the last ones count; messages in flight may have others
    std::map<const Note*, bool> unsent;  ///< true: it must be sent, unless it is replaced
    bool closed = false;                 ///< unsubscribed since: messages in flight may arrive
};

struct ModelSession {
    std::string client;
    unsigned shard = 0;
    std::string inbox;  ///< the inbox topic of its user; empty: the session is ending
    Hello hello;
    bool connected = false;
    bool reads = true;  ///< a client that does not may have to wait for messages
    std::size_t window = 0;
    std::map<std::string, ModelSubscription> subscriptions;
    std::list<Copy> due;             ///< QoS 0, in this turn
    std::list<Copy> waiting;         ///< QoS 1 and 2, never sent
    std::size_t gone = 0;            ///< of these, expired ones that a full queue has lost
    std::list<Copy> unacknowledged;  ///< sent on this connection, in the order of their first time
    std::list<Copy> to_resend;       ///< sent on an earlier one
    std::list<Copy> may_resend;      ///< shared, QoS 1: they may go to another member
    std::set<std::uint16_t> released;
    std::set<std::uint16_t> to_release;  ///< PUBREL must be sent again
    std::set<std::uint16_t> on_the_wire;
    std::set<std::uint16_t> unreleased;  ///< QoS 2 from the client
    std::list<RetainedRequest> requests;
    std::set<std::string> shared_ever;
    std::optional<ModelWill> will;
    Millis will_due = 0;
    Millis ends = 0;
    std::uint64_t away_since = 0;

    bool is_v5() const { return hello.version == Version::v5_0; }
};

/// What the standard requires of a broker, implemented in the simplest way: each message is
/// compared with every filter. The test reports what clients do and when messages between shards
/// arrive, and the model checks what the clients receive.
class SessionModel {
public:
    SessionModel(const BrokerSettings& settings, unsigned shards)
        : settings_(settings), shards_(shards), retained_(shards) {}

    // -- what clients do
    /// Is a session present?
    bool connect(const std::string& client, unsigned shard, const std::string& inbox,
                 const Hello& hello, Millis now);
    void end(const std::string& client, bool takes_will_back, Millis now);
    void publish(Note note, unsigned shard, Millis now);
    /// True if the subscription is new.
    bool subscribe(const std::string& client, const std::string& filter, SubscribeOptions options,
                   std::uint32_t identifier, Millis now);
    bool unsubscribe(const std::string& client, const std::string& filter);
    void puback(const std::string& client, std::uint16_t id);
    void pubrec(const std::string& client, std::uint16_t id, bool error);
    void pubcomp(const std::string& client, std::uint16_t id);

    // -- events between shards and of time
    void arrive(const Note& note, unsigned shard, Millis now);
    void tick(Millis now);
    /// No messages between shards are in flight.
    void settle_shares();

    // -- what clients receive
    void receive(const std::string& client, const Publish& publish, std::string_view topic,
                 Millis now);
    void receive(const std::string& client, const Pubrel& pubrel);

    /// Call after each event: clients with room must have got their messages.
    void check_turn(Millis now);
    /// Call after all clients have acknowledged everything, and all messages between shards have
    /// arrived.
    void check_quiet(Millis now);
    /// No client of the shard may have subscribed to it.
    void check_unwanted(const Note& note, unsigned shard) const;

    ModelSession* find(const std::string& client);
    const std::map<std::string, ModelSession>& sessions() const { return sessions_; }
    std::vector<const Note*> take_published() { return std::exchange(published_, {}); }
    std::size_t connected(unsigned shard) const;
    std::size_t disconnected(unsigned shard) const;
    std::size_t subscriptions(unsigned shard) const;
    /// Messages in queues: those that have not expired must be there, all others may be.
    struct Waiting {
        std::size_t least = 0;
        std::size_t most = 0;
        std::size_t expired = 0;  ///< and may be counted as lost already
    };
    Waiting waiting(unsigned shard, Millis now) const;
    std::size_t retained(unsigned shard, Millis now) const;

    std::uint64_t lost_to_full_queues = 0;
    std::uint64_t lost_to_expiry = 0;         ///< when their turn came
    std::uint64_t may_be_lost_to_expiry = 0;  ///< before it: in queues that were full, or ended
    std::uint64_t lost_to_size = 0;
    std::uint64_t received = 0;  ///< messages that clients got rightly
    std::uint64_t resent = 0;    ///< again
    std::uint64_t retained_done = 0;
    std::uint64_t shared_taken = 0;
    std::uint64_t wills = 0;
    std::uint64_t by_inbox = 0;        ///< messages that no subscription selected
    std::uint64_t ended_together = 0;  ///< session expiries that ended in the last tick

private:
    /// The receiver of a message of a shared subscription.
    struct Taken {
        std::string holder{};
        bool live = false;  ///< sent on its present connection
        bool acknowledged = false;
        bool died = false;  ///< QoS 2, lost with its session
    };
    using SharedMessage = std::pair<std::string, const Note*>;

    PropertyList sender_told(const Note& note) const;
    std::size_t cost(const Copy& copy) const;
    std::optional<Copy> copy_for(const ModelSession& session, const Note& note) const;
    bool fits(const ModelSession& session, const Copy& copy, Millis now) const;
    bool pass_over(const ModelSession& session, const Copy& copy, Millis now);
    void receive_new(ModelSession& session, Copy& got, std::string_view payload, Millis now,
                     std::string_view topic);
    void receive_again(ModelSession& session, const Copy& got, std::string_view payload,
                       std::string_view topic, Millis now);
    bool take_owed(ModelSession& session, Copy& got, std::string_view payload,
                   std::string_view topic, Millis now);
    bool take_retained(ModelSession& session, Copy& got, std::string_view payload,
                       std::string_view topic, Millis now);
    void take_shared(ModelSession& session, Copy& got, std::string_view payload,
                     std::string_view topic);
    std::string share_of(const ModelSession& session, const Copy& copy) const;
    void acknowledge_shared(const ModelSession& session, const Copy& copy);
    void interrupt(ModelSession& session);
    void begin_end(ModelSession& session);
    void lose_surplus(ModelSession& session, Millis now);
    void destroy(const std::string& client);
    void end_disconnected(const std::string& client, Millis now);
    void publish_will(ModelSession& session, Millis now);
    void check_turn(ModelSession& session, Millis now);

    const BrokerSettings settings_;
    const unsigned shards_;
    std::deque<Note> notes_;
    std::map<std::string, ModelSession> sessions_;
    std::vector<std::map<std::string, const Note*>> retained_;  ///< by shard and topic
    std::map<SharedMessage, Taken> taken_;
    std::vector<const Note*> published_;
    std::vector<const Note*> shared_published_;
    std::uint64_t events_ = 0;
};

/// MQTT 5.0, 4.7, word by word.
bool selects(std::string_view filter, std::string_view topic);

/// `$share/group/filter`: the filter.
std::optional<std::string_view> filter_of_share(std::string_view filter);

/// The copy with this packet identifier, or the end.
std::list<Copy>::iterator find_id(std::list<Copy>& copies, std::uint16_t id);

/// The topics that only shared subscriptions select in these tests.
inline bool is_for_shares(std::string_view topic) { return topic.starts_with("s/"); }

}  // namespace pulsegate
