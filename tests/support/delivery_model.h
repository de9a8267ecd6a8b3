#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "protocol/packet.h"
#include "server/base/clock.h"

namespace pulsegate {

/// What clients may rely on when the gateway crashes: it is told what they send and receive, and
/// judges what comes, and in the end what has not come. It knows nothing of the gateway, and where
/// the gateway may do one thing or the other it allows both. Throws Broken (session_model.h).
class DeliveryModel {
public:
    /// Of a room: all users are members.
    static constexpr const char* room = "room/r";

    enum class Kind : std::uint8_t { plain, will, delayed };

    struct Note {
        std::string topic;
        QoS qos = QoS::at_most_once;
        std::string publisher{};
        Kind kind = Kind::plain;
        bool retain = false;
        bool deletes = false;               ///< what is retained
        bool for_newcomer = false;          ///< to the inbox of a user that never had a session
        std::set<std::string> newcomers{};  ///< clients of such users, of a message to the room
        WallMillis due = 0;                 ///< of a delayed message
    };
    /// Of a message; it is the payload.
    using Number = std::uint32_t;

    // -- messages
    Number publish(Note note);
    Note& note(Number number) { return notes_.at(number).note; }
    /// The client has not been answered: for the gateway it may be a new one.
    void send_again(Number number) { notes_.at(number).sent_again = true; }
    /// The gateway answers for it from now on.
    void acknowledge(Number number);
    void refuse(Number number) { notes_.at(number).refused = true; }
    void try_to_cancel(Number number) { notes_.at(number).may_be_cancelled = true; }
    void cancelled(Number number);

    // -- sessions
    /// CONNECT with a clean start: until the CONNACK nobody knows whether its session has ended.
    void begin_anew(const std::string& client);
    /// CONNACK. `kept`: the session outlives its connection.
    void connected(const std::string& client, const std::string& user, bool clean, bool kept,
                   bool present);
    void disconnected(const std::string& client);
    /// Returns the number of the subscription.
    std::size_t subscribe(const std::string& client, const std::string& filter, QoS qos);
    void subscribed(const std::string& client, std::size_t subscription);
    void unsubscribe(const std::string& client, const std::string& filter);
    void unsubscribed(const std::string& client, const std::string& filter);
    /// All that happened so far is on the disk.
    void settle();
    /// Even what may be lost is.
    void settle_all();
    void crash();

    // -- judgement
    struct Arrival {
        Number number;
        QoS qos;
        bool is_new;    ///< the packet is not the repetition of one that the client has
        bool by_group;  ///< by the shared subscription
        bool dup;
    };
    void receive(const std::string& client, const Arrival& arrival, WallMillis now);
    /// Everything has had its time to arrive.
    void check_complete() const;
    /// What a new subscriber was told of the topic.
    void check_retained(const std::string& topic, std::optional<Number> value) const;

    std::set<std::string> retained_topics() const;

private:
    using Event = std::uint64_t;
    static constexpr Event never = std::numeric_limits<Event>::max();

    struct Entry {
        Note note;
        Event sent = 0;
        Event acknowledged = never;
        bool refused = false;
        bool sent_again = false;
        std::set<std::string> met{};  ///< newcomers that came before it was acknowledged
        bool may_be_cancelled = false;
        bool cancelled = false;
    };

    /// A subscription from the SUBSCRIBE to the UNSUBACK, or to the end of its session.
    struct Period {
        std::string filter;
        QoS qos;
        Event begin;
        Event sure = never;  ///< it is promised since
        Event end = never;
        bool may_have_ended = false;  ///< since the UNSUBSCRIBE
        bool ended_with_session = false;

        bool is_open() const { return end == never; }
    };

    /// What the next CONNACK says of a session.
    enum class Expected : std::uint8_t { absent, present, either };

    struct Receiver {
        std::string user;
        std::vector<Period> periods;
        Expected expected = Expected::absent;
        bool kept = false;
        bool begins_anew = false;             ///< CONNACK has not come yet
        bool certain = true;                  ///< the session is on the disk, if it is kept
        Event left = 0;                       ///< its last connection ended then
        bool is_left_certain = true;          ///< that is on the disk
        std::map<Number, unsigned> received;  ///< in this session
        std::set<Number> ever_received;
        using Stream = std::tuple<std::string, std::string, QoS, QoS>;
        std::map<Stream, Number> latest;  ///< of first deliveries in this session
    };

    void meet(const std::string& client, const std::string& user);
    void begin_session(Receiver& receiver);
    void make_certain(Receiver& receiver);
    bool was_there(const Receiver& receiver, const Entry& entry) const;
    bool may_get(const Receiver& receiver, const Entry& entry, bool by_group) const;
    bool must_get(const Receiver& receiver, const Entry& entry) const;
    bool is_owed(const Entry& entry) const;
    static void check_dup(const std::string& client, const Receiver& receiver, const Entry& entry,
                          const Arrival& arrival);
    void receive_by_group(const std::string& client, const Arrival& arrival);
    void check_order(Receiver& receiver, const Entry& entry, Number number, QoS qos);
    void check_group(const Entry& entry, Number number) const;
    void check_newcomer(const Entry& entry, Number number) const;

    std::vector<Entry> notes_;
    std::map<std::string, Receiver> receivers_;
    std::map<Number, unsigned> by_group_;  ///< deliveries to members of the shared subscription
    Event now_ = 0;
};

}  // namespace pulsegate
