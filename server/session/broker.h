#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/encode.h"
#include "protocol/packet.h"
#include "server/auth/verdict.h"
#include "server/clock.h"
#include "server/counters.h"
#include "server/message.h"
#include "server/routing/interest.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/letters.h"
#include "server/session/link.h"
#include "server/session/presence.h"
#include "server/session/publication.h"
#include "server/session/session.h"
#include "server/session/settings.h"
#include "server/session/share_groups.h"
#include "server/store/store.h"
#include "wheel/stacked_wheel.h"

namespace pulsegate {

/// What a broker needs of the world around it.
class Surroundings {
public:
    /// To the brokers of all other shards that may have subscribers for it, or must retain it, and
    /// to that of the shard where the inbox is that it is for.
    virtual void forward(const MessageRef& message, std::optional<unsigned> inbox) = 0;

    /// The Interest of one shard, which may be another one.
    virtual Interest& interest(unsigned shard) = 0;

    /// To the broker of one shard, this one too; it is read in another turn.
    virtual void send(unsigned shard, Letter letter) = 0;

    virtual void record(PresenceChange change) = 0;

protected:
    ~Surroundings() = default;
};

/// The session side of one shard: who has a session, what they subscribe to, and what a packet of
/// theirs does. It speaks to clients through Links and to the rest through Surroundings; it has no
/// socket, no thread and no clock: whoever calls says what time it is.
class Broker {
public:
    Broker(const BrokerSettings& settings, unsigned shard, unsigned shards, Interest& interest,
           Store& store, Counters& counters, Surroundings& surroundings);
    ~Broker();

    /// The shard that a client belongs to. A client that has no name yet stays here.
    unsigned home(const Connect& connect, const Verdict& verdict) const;
    static unsigned home(std::string_view name, unsigned shards);

    /// Whose client that is; `client` is its id.
    std::string_view user_name(const Connect& connect, const Verdict& verdict,
                               std::string_view client) const;

    /// The session of that client, or null.
    const Session* find(std::string_view user, std::string_view client) const;

    /// The rules for whoever brings none, from now on; null: everything is allowed.
    void use(std::shared_ptr<const AccessRules> rules) { rules_ = std::move(rules); }

    /// Answers the CONNECT of a client that may come in. On success `link.session` is set and the
    /// link's limit with it.
    void login(Link& link, const Connect& connect, const Verdict& verdict, Millis now);

    /// Answers a CONNECT with a refusal and ends the link. The log is told `why`, the client what
    /// is `told`, if that is less.
    void refuse(Link& link, const Connect& connect, Reason reason, std::string_view why,
                const char* told = nullptr);

    /// Any other packet of a client that is logged in.
    void handle(Session& session, const Packet& packet, Millis now);

    /// The client's connection has ended.
    void end(Session& session, const Ending& ending, Millis now);

    /// The link's backlog has become empty.
    void drained(Session& session, Millis now);

    /// A message published on another shard.
    void deliver(const MessageRef& message, Millis now);

    /// What another broker wrote, or this one itself.
    void receive(Letter& letter, Millis now);

    /// The user as JSON, if known here.
    std::optional<std::string> describe(std::string_view user, Millis now) const;

    /// Once a second; again, in a turn of its own, as long as it says that there is more to do.
    bool tick(Millis now);

    /// Everyone goes offline, because the gateway stops; the connections are still there to hear
    /// it.
    void announce_shutdown(Millis now);

    const Presence& presence() const { return presence_; }
    const Retained& retained() const { return retained_; }
    /// How much has been looked at since the beginning, in entries of the routers.
    std::uint64_t work() const { return router_.work() + groups_.work() + told_ + devices_; }
    /// Clients that have not been told yet all that is retained; looks at every session.
    std::size_t catching_up() const;
    std::size_t connected() const { return sessions_.size() - absent_; }
    std::size_t absent() const { return absent_; }
    std::size_t waiting() const { return waiting_; }
    std::size_t subscriptions() const { return router_.subscriptions(); }
    std::size_t share_groups() const { return groups_.groups(); }

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
    struct Refusal {
        Reason reason;
        const char* why;
        std::optional<Limit> limit{};
    };

    // login.cpp
    std::string assign_client_id(const Connect& connect, const Verdict& verdict) const;
    std::optional<Refusal> objection_to_login(const Connect& connect) const;
    bool crowds(const User& user, std::string_view client) const;
    std::unique_ptr<Pass> pass_of(Session& session, const Verdict& verdict);
    const AccessRules* rules_of(const Session& session) const;
    Session& find_or_create(User& user, std::string client);
    void let_go(Session& session);
    void accept(Session& session, const Connect& connect, bool assigned, bool resumed);
    Millis agree_on_silence(const Connect& connect, PropertyList& told) const;
    std::uint32_t agree_on_expiry(const Connect& connect) const;
    std::unique_ptr<Testament> testament_of(const Connect& connect) const;
    void resume(Session& session);

    // broker.cpp: how sessions end
    void clear(Session& session);
    void interrupt(Session& session);
    void begin_absence(Session& session);
    void end_absence(Session& session);
    bool make_room();
    void expire(Absence& absence);
    void end_absent(Session& session, const char* why);
    void destroy(Session& session);
    void execute_testament(Session& session);
    void announce(const User& user, const Device& device, Millis silent);
    /// Null if the user's name is too long for a topic.
    MessageRef presence_message(const User& user) const;

    // packets.cpp
    void on_publish(Session& session, const Publish& publish);
    bool resolve_alias(Session& session, const Publish& publish, std::string_view& topic);
    std::optional<Refusal> objection_to_message(const Session& session, const Publish& publish,
                                                std::string_view topic) const;
    void answer(Session& session, const Publish& publish, const std::optional<Refusal>& refusal);
    void on_puback(Session& session, const Puback& puback);
    void on_pubrec(Session& session, const Pubrec& pubrec);
    void on_pubrel(Session& session, const Pubrel& pubrel);
    void on_pubcomp(Session& session, const Pubcomp& pubcomp);
    void on_subscribe(Session& session, const Subscribe& subscribe);
    void on_unsubscribe(Session& session, const Unsubscribe& unsubscribe);
    void on_disconnect(Session& session, const Disconnect& disconnect);
    bool subscribe(Session& session, std::string_view filter, SubscribeOptions options,
                   std::uint32_t identifier);
    std::optional<Refusal> objection_to_filter(Session& session, std::string_view filter) const;
    void kick(Session& session, Reason reason, const char* why);

    // delivery.cpp
    void publish(Message message, const Session* publisher);
    void deliver_everywhere(const MessageRef& message, const Session* publisher);
    void deliver_here(const MessageRef& message, const Session* publisher,
                      const std::optional<std::string>& owner);
    std::optional<std::string> inbox_owner(std::string_view topic) const;
    void deliver_to_devices(User& user, const MessageRef& message, const Session* except,
                            Publication& publication);
    void deliver(Session& session, const Delivery& delivery, Publication& publication);
    void transmit(Session& session, const Delivery& delivery, Publication& publication);
    bool send_publish(Session& session, const Delivery& delivery, Publication& publication,
                      std::uint16_t packet_id, bool dup);
    void queue(Session& session, const Delivery& delivery);
    std::optional<Delivery> take_waiting(Session& session);
    void lose_oldest(Session& session);
    void refill_window(Session& session);
    void settle(Session& session, Flow::List::iterator entry);
    void report_lost(Session& session);
    void forget_if_idle(Session& session);

    // sharing.cpp
    unsigned home_of(SessionId session) const { return static_cast<unsigned>(session % shards_); }
    void tell_groups(Session& session, Membership::Change change);
    void join(Session& session, std::string_view share, SubscribeOptions options,
              std::uint32_t identifier, bool is_new);
    void leave(Session& session, std::string_view share);
    void hand_out(const MessageRef& message, const ShareGroups::Choice& choice);
    void give_back_shared(Session& session, bool ends);
    void post(unsigned shard, Letter letter);
    void read(PresenceQuestion& question);
    void read(PresencePage& page);
    void read(CatchUpTurn& turn);
    void read(Membership& membership);
    void read(Handout& handout);
    void read(Return& returned);

    // catch_up.cpp
    void wish_retained(Session& session, const SubscribeFilter& wanted, std::uint32_t identifier);
    bool keeps_up(const Session& session) const;
    void fall_behind(Session& session, std::uint64_t version);
    void add_wish(Session& session, CatchUp::Wish wish);
    void begin_wish(Session& session);
    void catch_up(Session& session);
    void narrow_wish(Session& session);
    void wait_until_drained(Session& session);
    std::uint64_t new_question(Session& session);
    Session* asker_of(std::uint64_t question);
    void ask(Session& session);
    std::size_t tell_retained(Session& session, std::size_t room, std::size_t& looks);
    void tell_presence(Session& session, const MessageRef& message);
    void tell(Session& session, const MessageRef& message);
    PresencePage answer(const PresenceQuestion& question) const;
    void end_wish(Session& session);
    void end_catch_up(Session& session, std::string_view filter);
    void pause_catch_up(Session& session);

    template <class AnyPacket>
    void send(Session& session, AnyPacket packet);

    const BrokerSettings& settings_;
    const unsigned shard_;
    const unsigned shards_;
    Store& store_;
    Counters& counters_;
    Surroundings& surroundings_;
    Millis now_ = 0;  ///< of the call at hand

    Presence presence_;
    Router router_;
    ShareGroups groups_;  ///< whose home is here
    Retained retained_;

    boost::unordered_flat_set<Session*, Hash, Equal> sessions_;
    boost::unordered_flat_map<SessionId, Session*> sharing_;  ///< those with shared subscriptions
    SessionId next_session_;

    std::shared_ptr<const AccessRules> rules_;
    StackedWheel passes_;    ///< that will be worth nothing one day
    StackedWheel absences_;  ///< until a will is due or a session ends
    boost::intrusive::list<Absence, boost::intrusive::constant_time_size<false>>
        longest_absent_;  ///< the longest first
    std::size_t absent_ = 0;
    std::size_t absent_bytes_ = 0;   ///< what their sessions take, but for their queues
    std::size_t waiting_ = 0;        ///< messages in all queues
    std::size_t waiting_bytes_ = 0;  ///< their cost

    boost::unordered_flat_map<std::uint64_t, Session*> catching_up_;  ///< by their question
    std::uint64_t next_question_ = 1;
    std::uint64_t told_ = 0;     ///< retained messages looked at
    std::uint64_t devices_ = 0;  ///< looked at because something came to their inbox
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
        if (bytes.size() > session.max_packet_size)
            return kick(session, Reason::packet_too_large,
                        "an answer is larger than the client's Maximum Packet Size");
    }
    counters_.count_out(static_cast<PacketType>(static_cast<std::uint8_t>(bytes[0]) >> 4));
    session.link->send(bytes);
}

}  // namespace pulsegate
