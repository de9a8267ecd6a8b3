#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/owner_thread.h"
#include "server/edge/edge_frames.h"
#include "server/edge/link_exchange.h"
#include "server/loop/rounds.h"
#include "server/transport/channels/channel.h"
#include "server/transport/transport.h"

namespace pulsegate {

class AddressLimits;
class Connection;
class LoginFlow;
class Logins;

std::size_t hash_value(const ChannelName& name);

/// The clients of one shard that are connected to other nodes, their edges. Each has a Connection
/// with a Channel. When the link to an edge ends, its clients may still reconnect elsewhere within
/// their limits of silence. It lives on the shard's thread.
class EdgeChannels final : ChannelPeer {
public:
    EdgeChannels(unsigned shard, Rounds& rounds, Transport& transport, LoginFlow& flow,
                 const Logins& logins, AddressLimits& address_limits)
        : shard_(static_cast<std::uint16_t>(shard)),
          rounds_(rounds),
          transport_(transport),
          flow_(flow),
          logins_(logins),
          address_limits_(address_limits) {}

    /// Call it before the shard runs; `exchange` must outlive it. Null: no edge connects.
    void use(LinkExchange* exchange) { exchange_ = exchange; }

    void receive(const LinkMail& mail);

    /// This node stops, and another one takes over. From now on the edges are told nothing, so they
    /// keep their clients until they have a link to the next home.
    void leave_clients_to_next_home();

    /// Tells all edges of the lift. Only on the first shard, so that edges hear of lifts and of the
    /// begin of a link in their order.
    void tell_lift(const BanLift& lift);
    /// Tells all edges that this node has banned the address. Only on the first shard.
    void tell_ban(const Address& address);

    /// Clients whose link has ended count until they are back or their limit of silence is over.
    std::size_t clients() const { return connections_.size(); }
    /// These don't count here.
    std::size_t linked_clients() const;
    /// The incarnations of the edges that have a link, with their clients.
    std::vector<std::pair<std::string, std::size_t>> linked() const;
    /// The work of the logins and bans since the start: one mail may have many.
    std::uint64_t work() const { return work_; }

private:
    void send(const ChannelName& channel, std::string_view bytes) override;
    bool may_send(const ChannelName& channel) override;
    void tell_taken(const ChannelName& channel, std::uint32_t bytes) override;
    void tell_accepted(const ChannelName& channel, Millis limit,
                       std::uint32_t largest_packet) override;
    void ask_silence(const ChannelName& channel) override;
    bool is_cut_off(const ChannelName& channel) const override;
    void forget(const ChannelName& channel, const ChannelEnd& end) override;

    void receive(const EdgeFrame& frame, std::uint64_t link);
    void begin(const LinkMail& mail);
    void hear_ban(const EdgeFrame& frame);
    void tell_lift(std::uint64_t link, const BanLift& lift);
    void tell_ban(std::uint64_t link, const HomeBan& ban);
    void put_home_ban(std::uint64_t link, std::string_view contents);
    void tell_some_bans();
    void open(const ChannelName& name, const EdgeFrame& frame);
    Millis time_on_link(std::uint64_t link) const;
    void lose(std::uint64_t link);
    void lose_some_edges();
    void put(const ChannelName& channel, EdgeFrameKind kind, std::string_view contents);
    void flush();
    void go_on_sending();

    struct Output;
    void note_connection(Output& output, LinkMail::Kind kind);

    struct Output {
        std::string node{};  ///< the incarnation of the edge
        std::size_t clients = 0;
        bool hears_lifts = false;
        bool hears_bans = false;
        /// The page of this node's bans that the edge is told next; nothing: it has been told all.
        std::optional<std::uint64_t> untold_bans{};
        std::string frames{};     ///< frames of this round
        std::size_t waiting = 0;  ///< bytes that waited for the link at the end of the last round
        std::deque<ChannelName> blocked{};  ///< channels that wait for room
        std::optional<Millis> cut_off{};    ///< the time since which it has no connection
        Tick postponed = 0;                 ///< Transport::postponed at that time
        Millis connected = 0;               ///< when it last got a connection
        Millis outage = 0;                  ///< how long it had no connection before that
    };

    const std::uint16_t shard_;
    Rounds& rounds_;
    Transport& transport_;
    LoginFlow& flow_;
    const Logins& logins_;
    AddressLimits& address_limits_;
    LinkExchange* exchange_ = nullptr;
    boost::unordered_flat_map<ChannelName, Connection*> connections_;
    std::map<std::uint64_t, Output> outputs_;  ///< by link, without links that have ended
    bool is_flush_due_ = false;
    bool tells_bans_ = false;  ///< is told to some edges that have just connected
    std::uint64_t work_ = 0;
    boost::asio::steady_timer resuming_{rounds_.context()};
    struct Lost {
        boost::intrusive_ptr<Connection> connection;
        Millis since;
        Tick postponed;  ///< Transport::postponed when the link ended
    };
    std::vector<Lost> lost_;  ///< clients of links that have ended
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
