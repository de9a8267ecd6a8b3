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
#include <string_view>
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
#include "server/transport/listeners.h"
#include "server/transport/transport.h"
#include "server/upgrade/export_counts.h"

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
    /// Calls `Broker::store_overdue` at that time.
    void call_store_overdue(Millis when);
    /// Does all work that is due, as at every tick.
    void advance();

    // For an upgrade, in which another process replaces this one; see GatewayFreeze.

    /// From now on accepts no connections and reads no client, so that all work under way ends.
    void begin_freeze();
    struct Settled {
        bool is_quiet;          ///< no work is under way except logins
        std::size_t logins;     ///< logins under way
        std::uint64_t handled;  ///< items from other threads and turns so far
    };
    /// Makes that work end sooner. Call it repeatedly. `holds_logins`: logins wait as well.
    Settled settle(bool holds_logins);
    /// From now on writes nothing and changes nothing, because another process may have its
    /// clients.
    void complete_freeze() { rest(Rest::all); }
    /// At rest: the store was closed and opened again.
    void store_reopened() { broker_.passage().store_reopened(); }
    /// Goes on as before the freeze, or begins with the clients that it has adopted.
    void thaw();
    /// Calls `visit(socket, state)` for each client that another process can take, and changes
    /// nothing. The state contains secrets, and is wiped when `visit` returns.
    ExportCounts export_clients(const std::function<void(int, std::string_view)>& visit);
    /// The same for its history, in parts. The history does not grow once the freeze is complete.
    void export_history(const std::function<void(std::string_view)>& visit);
    /// Tells the clients that were left behind that this process ends. Another process serves.
    void end_left_behind();
    /// Takes over a client that another process had: in a task, or before `run` when the store is
    /// restored. The other process may continue with it until `run` or `thaw`. So this shard
    /// neither reads nor writes until then.
    enum class Adoption : std::uint8_t {
        adopted,
        refused,  ///< not possible; the client has to connect again
    };
    [[nodiscard]] Adoption adopt(UniqueFd socket, std::string_view state);
    /// The home shard of such a client.
    static unsigned home_of(std::string_view state, unsigned shards);
    /// All clients have been adopted.
    void finish_adoption();
    /// Runs `call` after that time, in a round of its own. A later call of `after` replaces it.
    void after(Millis time, std::function<void()> call);

    /// Sends the output of the task so far at once, and not only at the end of the turn.
    void end_turn() { transport_.end_turn(); }
    /// Refuses logins from now on, and asks all clients to leave within that time.
    void drain(Millis over);
    /// Accepts no more connections and logins. Unless it was drained or another node takes over,
    /// all users go offline, and subscribers to their presence are told.
    void announce_shutdown(bool has_successor);
    /// The listening sockets, in the order of the listeners. The shard still owns them.
    std::vector<int> listening() const { return listeners_.sockets(); }
    /// Disconnects all clients. The loop ends when they have had time to read the DISCONNECT.
    void stop();

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
        const bool rests = rest_ != Rest::none && !finishes_ended_;
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
    void rest(Rest rest);
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
    std::atomic<Millis> last_tick_{monotonic_now()};
    bool stopping_ = false;
    Config& config_;  ///< only this shard's thread touches it
    bool is_drained_ = false;
    Rest rest_ = Rest::none;
    bool finishes_ended_ = false;  ///< handles some packets although it rests
    bool holds_logins_ = false;
    Millis rested_ = 0;          ///< when the rest began
    std::uint64_t handled_ = 0;  ///< items of the mailbox except tasks, and turns
    std::deque<Item> held_;      ///< items that have come since, and wait
    boost::asio::steady_timer rest_timer_{loop_};
    Ending drained_;  ///< for clients that are asked to leave
};

}  // namespace pulsegate
