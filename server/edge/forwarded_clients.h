#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/bytes.h"
#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/edge/edge_frames.h"
#include "server/edge/link_exchange.h"
#include "server/limits/address.h"
#include "server/loop/rounds.h"
#include "server/session/terms/homes.h"
#include "server/session/terms/link.h"

namespace pulsegate {

class AddressLimits;
class Authenticator;
class Connection;
class Logins;
struct Login;

/// The clients of one shard that have their sessions on another node, their home. This node keeps
/// their sockets, watches their silence and answers PINGREQ. All other packets go to the home. When
/// the link to the home ends, this node disconnects each client before the home would call it
/// offline. It lives on the shard's thread.
class ForwardedClients {
public:
    ForwardedClients(unsigned shard, Rounds& rounds, Logins& logins,
                     const Authenticator& authenticator, AddressLimits& address_limits)
        : shard_(static_cast<std::uint16_t>(shard)),
          rounds_(rounds),
          logins_(logins),
          authenticator_(authenticator),
          address_limits_(address_limits) {}

    /// Call it before the shard runs; `exchange` must outlive it. Null: the sessions are on this
    /// node.
    void use(LinkExchange* exchange) { exchange_ = exchange; }
    bool is_on() const { return exchange_ != nullptr; }

    /// Sends the login of a client with valid credentials to the home, or refuses it.
    void open(Login& login);
    void forward(Connection& connection, Bytes packet);
    /// Is so much of the client's data under way that nothing more may be read from it?
    bool must_wait(const Connection& connection) const;
    /// Call it when everything for the client has been written.
    void drained(const Connection& connection);
    void ended(const Connection& connection, const Ending& ending);

    /// Tells the home that this node has banned the address. Only on the first shard. Without a
    /// link it does nothing: the next link begins with all bans.
    void tell_ban(const Address& address);

    void receive(const LinkMail& mail);

    /// The home goes on, but this node can't reach it. Until there is another link, the clients
    /// leave a few at a time, because they can reach the home through other nodes.
    void release();

private:
    struct Client {
        std::uint64_t link;
        std::uint32_t number;
        std::uint16_t home;        ///< shard of the home
        std::int64_t room;         ///< bytes that may still be sent to the home; negative after a
                                   ///< packet that was larger
        std::uint32_t unreported;  ///< bytes for the client that have been written
    };

    void begin(const LinkMail& mail);
    void receive(const EdgeFrame& frame);
    void disown(const EdgeFrame& frame);
    void tell_bans();
    void hear_lift(const EdgeFrame& frame);
    void hear_ban(const EdgeFrame& frame);
    void put_frame(const EdgeFrame& frame);
    void put(const Client& client, EdgeFrameKind kind, std::string_view contents);
    void flush();
    std::uint32_t free_number();
    void lose(std::uint64_t link);
    void leave_some();

    const std::uint16_t shard_;
    Rounds& rounds_;
    Logins& logins_;
    const Authenticator& authenticator_;
    AddressLimits& address_limits_;
    LinkExchange* exchange_ = nullptr;
    std::uint64_t link_ = 0;           ///< the link to the home; 0: none
    Homes homes_{1};                   ///< the homes on that node
    bool tells_bans_ = false;          ///< on this link
    std::uint32_t lifts_known_ = 0;    ///< the number of the last lift that came on this link
    std::optional<Millis> cut_off_{};  ///< the link has no connection: when the home was last heard
    bool is_released_ = false;         ///< see `release`
    Millis lost_ = 0;  ///< when the home of the last link, now ended, was last heard
    boost::unordered_flat_map<const Connection*, Client> clients_;
    boost::unordered_flat_map<std::uint32_t, Connection*> by_number_;  ///< the clients of `link_`
    std::uint32_t last_number_ = 0;
    std::string output_;         ///< frames of this round
    bool is_congested_ = false;  ///< the link had too much to write at the end of the last round
    boost::asio::steady_timer leaving_{rounds_.context()};
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
