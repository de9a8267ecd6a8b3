#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/counters.h"
#include "server/base/files/line_writer.h"
#include "server/edge/edge_channels.h"
#include "server/edge/forwarded_clients.h"
#include "server/edge/link_exchange.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/login/authenticator.h"
#include "server/login/login_flow.h"
#include "server/loop/mailbox.h"
#include "server/loop/rounds.h"
#include "server/message/message.h"
#include "server/routing/interest.h"
#include "server/session/broker.h"
#include "server/settings/config.h"
#include "server/shard/client_drain.h"
#include "server/shard/gateway_parts.h"
#include "server/shard/shard_peers.h"
#include "server/shard/shard_status.h"
#include "server/shard/shard_upgrade.h"
#include "server/transport/listeners.h"
#include "server/transport/transport.h"

namespace pulsegate {

/// One thread, one event loop, one wheel, and all data of the users whose home it is. It owns and
/// joins its parts: listeners, transport, logins, broker. Other threads reach it through its
/// mailbox only. Members are for the shard's own thread unless they are marked for any thread.
class Shard final : ConnectionOwner, LoginHost {
public:
    using Task = std::function<void(Shard&)>;
    /// What other threads send.
    using Item = std::variant<MessageRef, ShardMessage, LedgerAnswer, MovedLogin, CheckTurn,
                              LoginAnswer, LinkMail, Task>;

    /// `config` is for this shard alone, and must outlive it.
    Shard(Config& config, unsigned index, const GatewayParts& shared);
    ~Shard();

    // Before `run`, from the thread that made it:

    /// All shards, this one included, by index.
    void meet(std::vector<Shard*> shards) { peers_.meet(std::move(shards)); }
    /// Returns the endpoint with its real port, because the port may be 0.
    Listener::Endpoint listen(const Listener::Endpoint& endpoint, Listener::Ipv4 ipv4,
                              const ListenerOptions& options) {
        return listeners_.listen(endpoint, ipv4, options);
    }
    /// The same, on a socket that listens already.
    Listener::Endpoint listen(const Listener::Endpoint& endpoint, UniqueFd inherited,
                              const ListenerOptions& options) {
        return listeners_.listen(endpoint, std::move(inherited), options);
    }

    /// Clients of other nodes have their sessions here. `exchange` must outlive the shard.
    void serve_edges(LinkExchange& exchange) { edges_.use(&exchange); }
    /// The sessions of its clients are on another node. `exchange` must outlive the shard.
    void serve_as_edge(LinkExchange& exchange) { forwarded_.use(&exchange); }

    /// `task` is called on the shard's thread; see `Rounds::guard_by`.
    void guard_by(Rounds::Task task) { rounds_.guard_by(std::move(task)); }
    void guard() const { rounds_.guard(); }

    /// Serves until `stop`.
    void run();

    // From any thread:

    /// Returns about how many bytes wait in the mailbox now.
    std::size_t send(Item item);
    /// Runs the task on the shard's thread, after all mail that has already arrived there. The
    /// future has the exception if the task throws.
    [[nodiscard]] std::future<void> call(Task task);
    std::size_t mailbox_weight() const { return mailbox_.weight(); }
    /// When its wheel last turned, on the monotonic clock.
    Millis last_tick() const { return last_tick_.load(std::memory_order_relaxed); }
    Interest& interest() { return interest_; }
    unsigned index() const { return index_; }

    // On the shard's thread:

    /// See BrokerHost.
    void later(OwnTurn turn);
    void deliver_later() { rounds_.go_on(); }

    // In a task, or before `run`:

    /// Applies the settings; those that need a restart must be the same as before.
    void use(const Config& config);
    /// Uses these certificates for new connections.
    void use(std::shared_ptr<const Tls> tls) { listeners_.use(std::move(tls)); }
    /// Sets the rules for clients without rules of their own; null: everything is allowed.
    void use(std::shared_ptr<const AccessRules> rules) { broker_.use(std::move(rules)); }
    /// Checks all connected clients against the rules, some in each turn, and then calls `judged`.
    void judge(std::function<void()> judged);
    /// Sets the lines of the password file. Clients that logged in with another line are
    /// disconnected.
    void use(std::shared_ptr<const PasswordLines> lines) { broker_.use(std::move(lines)); }

    ShardStatus status() const;
    /// The work since the start, in messages to one client.
    std::uint64_t work() const override { return broker_.work() + edges_.work(); }
    Broker& broker() { return broker_; }
    ClientLimits& client_limits() { return logins_.client_limits(); }
    Revocations& revocations() { return logins_.revocations(); }
    /// Disconnects some clients at the address, and drops their wills.
    Evicted evict(const Address& address);
    /// See EdgeChannels.
    void tell_lift(const BanLift& lift) { edges_.tell_lift(lift); }
    void tell_home_ban(const Address& address) { edges_.tell_ban(address); }
    /// See ForwardedClients.
    void release_forwarded() { forwarded_.release(); }
    /// Calls `Broker::store_overdue` at that time.
    void call_store_overdue(Millis when);
    /// Does all work that is due, as at every tick. If the shard stood still before, it first
    /// postpones the ends that wait for a client's return.
    void advance();

    /// Its part in an upgrade, in which another process replaces this one.
    ShardUpgrade& upgrade() { return upgrade_; }
    /// Ends the rest of an upgrade, in a task or before it runs; see ShardUpgrade::thaw. The ends
    /// that wait for a client's return move by the pause.
    void thaw();

    /// Sends the output of the task so far at once, and not only at the end of the turn.
    void end_turn() { transport_.end_turn(); }
    /// Refuses logins from now on, and asks all clients to leave within that time.
    void drain(Millis over);
    /// Accepts no more connections and logins. Unless it was drained or another node takes over,
    /// all users go offline, and subscribers to their presence are told.
    void announce_shutdown(bool has_successor);
    /// The listening sockets, in the order of the listeners. The shard still owns them.
    std::vector<int> listening() const { return listeners_.sockets(); }
    /// Disconnects all clients. The loop ends when they have had time to read the DISCONNECT. If
    /// there is a successor, clients of edges are not told: their edges keep them for it.
    void stop(bool has_successor);

private:
    void on_connect(Connection& connection, ReceivedConnect connect, Millis now) override;
    void on_packet(Connection& connection, const Packet& packet, Millis now) override;
    void on_connack(Connection& connection) override { logins_.connack_sent(connection); }
    void on_forwarded(Connection& connection, Bytes packet) override {
        forwarded_.forward(connection, packet);
    }
    void on_drained(Connection& connection) override;
    void on_slowed(Connection& connection) override;
    void on_lost_edge(Connection& connection) override;
    void on_end(Connection& connection, const Ending& ending, Millis now) override;
    void on_traced(const Connection& connection, Bytes packet, Version version,
                   Sender sender) override;
    bool is_accepted(const Connection& connection) const override;
    bool has_unanswered(const Connection& connection) const override;
    bool awaits_answers(const Connection& connection) const override;
    Millis answer_pause() const override;
    bool congested() override {
        const bool rests = upgrade_.is_at_rest() && !upgrade_.finishes_ended();
        return rests || broker_.unfinished() || peers_.congested() || broker_.store_lags();
    }

    void move_login(unsigned shard, MovedLogin login) override;
    bool forward_login(Login& login) override;
    void tell_ban(const Address& address) override;
    void begin_check(CheckTurn turn) override;
    void answer_login(LoginAnswer answer) override;

    void drain_mailbox();
    std::uint64_t receive_next(bool turns_first);
    std::uint64_t receive_turn();
    void end_journal_turn();
    void leave(OwnTurn turn);
    std::optional<Item> next_item();
    bool must_wait(const Item& item) const;
    void receive(const MessageRef& message) { broker_.receive(message, monotonic_now()); }
    void receive(ShardMessage& message) { broker_.receive(message, monotonic_now()); }
    void receive(LedgerAnswer& answer) { broker_.receive(answer, monotonic_now()); }
    void receive(MovedLogin& login) { logins_.receive(login); }
    void receive(const CheckTurn& turn) { logins_.receive(turn); }
    void receive(LoginAnswer& answer) { logins_.receive(answer); }
    void receive(const LinkMail& mail);
    void receive(const Task& task) { task(*this); }

    void wait_for_tick();
    void tick();
    void note_standstill(Millis now);
    Tick ticks_to_return(Millis now);
    void tick_broker();
    void leave_by(Millis end);

    const unsigned index_;
    Admission& admission_;
    /// Before the other members, so that handlers they leave in it are destroyed last. Other
    /// threads may post to it; only the shard's own thread uses its timers, acceptors and
    /// descriptors.
    boost::asio::io_context loop_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
    Rounds rounds_{loop_, [this] { drain_mailbox(); }};
    boost::asio::steady_timer timer_{loop_};
    boost::asio::steady_timer store_timer_{loop_};
    Mailbox<Item> mailbox_{rounds_};
    std::deque<OwnTurn> turns_;  ///< left to a later round
    Counters counters_;
    Interest interest_;
    ShardPeers peers_;
    Broker broker_;
    EdgeChannels edges_;
    ForwardedClients forwarded_;
    Transport transport_;
    LoginFlow logins_;
    Listeners listeners_;
    ClientDrain drain_{rounds_, transport_};
    ShardUpgrade upgrade_;
    std::deque<Item> held_;  ///< mail that waits for the end of an upgrade
    std::atomic<Millis> last_tick_{monotonic_now()};
    Millis advanced_ = monotonic_now();      ///< when `advance` was called last, or a rest ended
    std::optional<Millis> last_standstill_;  ///< when the last one ended
    Millis ticked_ = 0;                      ///< when the broker's last tick began
    bool stopping_ = false;
    Config& config_;  ///< only this shard's thread touches it
    bool is_drained_ = false;
    Ending drained_;  ///< for clients that are asked to leave
};

}  // namespace pulsegate
