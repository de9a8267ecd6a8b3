#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/admission/admission.h"
#include "server/admission/conduct.h"
#include "server/admission/login_queue.h"
#include "server/admission/visitors.h"
#include "server/config.h"
#include "server/counters.h"
#include "server/gatekeeper.h"
#include "server/line_writer.h"
#include "server/mailbox.h"
#include "server/message.h"
#include "server/routing/interest.h"
#include "server/session/broker.h"
#include "server/store/memory_store.h"
#include "server/transport/entrance.h"
#include "server/transport/listener.h"
#include "server/transport/transport.h"
#include "server/transport/wrapping.h"

namespace pulsegate {

/// How a shard stands, as a copy.
struct ShardStatus {
    Counters counters;
    std::size_t connections;
    std::size_t connected;
    std::size_t absent;
    std::size_t waiting;
    std::size_t subscriptions;
    std::size_t users;
    std::size_t online;
    std::size_t retained;
    std::size_t retained_bytes;
    std::size_t logins_waiting;
    std::size_t backlog;
    Tick tick;
    std::array<std::uint32_t, Wheel::slots> slots;
};

/// One thread, one event loop, one wheel, and all about the users who are at home here. Others
/// reach it through its mailbox only.
class Shard final : ConnectionOwner, Surroundings {
public:
    using Task = std::function<void(Shard&)>;
    using Mail = std::variant<Arrival, MessageRef, Letter, Task>;

    Shard(const Config& config, unsigned index, Admission& admission, Visitors& visitors,
          Gatekeeper& gatekeeper, LineWriter* events);
    ~Shard();

    /// All shards, this one included, by index; before `run`.
    void meet(std::vector<Shard*> shards) { shards_ = std::move(shards); }

    /// Before `run`. Returns where it really listens, should the port have been 0.
    Listener::Endpoint listen(const Listener::Endpoint& endpoint, const Door& door);

    /// The certificates for newcomers from now on; before `run`, or in a task.
    void use(std::shared_ptr<const Tls> tls) { tls_ = std::move(tls); }
    /// The rules for whoever brings none; null: everything is allowed.
    void use(std::shared_ptr<const AccessRules> rules);

    /// Serves until `stop`.
    void run();

    /// From any thread. Returns how many bytes of mail wait now, about.
    std::size_t send(Mail mail);

    /// For tasks, on the shard's own thread:
    ShardStatus status() const;
    Broker& broker() { return broker_; }
    Conduct& conduct() { return conduct_; }
    /// No more newcomers; all users go offline, and whoever watches hears it.
    void announce_shutdown();
    /// Says goodbye to everyone; the loop ends when they have had time to read it.
    void stop();

private:
    void on_packet(Connection& connection, const Packet& packet, Millis now) override;
    void on_drained(Connection& connection) override;
    void on_slowed(Connection& connection) override;
    void on_end(Connection& connection, const Ending& ending, Millis now) override;
    std::uint64_t work() const override { return broker_.work(); }
    bool congested() override;

    void forward(const MessageRef& message, std::optional<unsigned> inbox) override;
    Interest& interest(unsigned shard) override { return shards_[shard]->interest_; }
    void record(PresenceChange change) override;
    void send(unsigned shard, Letter letter) override;

    // shard_logins.cpp: how a CONNECT becomes a login
    using Ticket = LoginQueue::Ticket;
    struct Objection {
        Reason reason;
        const char* why;
        Limit limit;
    };
    void on_connect(Connection& connection, const Connect& connect, Millis now);
    std::optional<Objection> objection_to(const Connection& connection, Millis now) const;
    bool may_log_in(Millis now);
    void expect_logins();
    void next_logins(Millis late);
    void serve_queue(Millis now);
    void ask_for_verdict(Connection& connection, const Connect& connect);
    std::optional<Verdict> verdict_by_certificate(const Connection& connection) const;
    void turn_away(Connection& connection, const Connect& connect, const Verdict& verdict);
    void judge_guess(const Address& address, const Connect& connect);
    Millis pause_of(const Connection& connection, std::string_view user, std::string_view client,
                    Millis now);
    Ticket hold(Connection& connection, Millis wait);
    boost::intrusive_ptr<Connection> take_held(Ticket ticket);
    void go_on(Ticket ticket, Application application);
    bool go_on_unless_gone(Ticket ticket, Application application);
    void pause(Connection& connection, Application application, Millis time);
    void judge_conduct(const Session& session, const Ending& ending, Millis now);

    void open_mail();
    void receive(Arrival& arrival);
    void receive(const MessageRef& message);
    void receive(Letter& letter);
    void receive(const Task& task);

    void leave_by(Millis end);
    void wait_for_tick();
    void tick();
    void tick_broker();

    const unsigned index_;
    Admission& admission_;
    Visitors& visitors_;
    Gatekeeper& gatekeeper_;
    LineWriter* const events_;

    boost::asio::io_context io_{1};
    boost::asio::steady_timer timer_{io_};
    Mailbox<Mail> mailbox_{io_};
    std::vector<Mail> mail_;  ///< taken, and read up to `unread_mail_`
    std::size_t unread_mail_ = 0;
    Counters counters_;
    Interest interest_;
    MemoryStore store_;
    const BrokerSettings settings_;
    Broker broker_;
    Transport transport_;
    std::shared_ptr<const Tls> tls_;
    boost::unordered_flat_map<Ticket, boost::intrusive_ptr<Connection>>
        held_;  ///< whose CONNECT waits for something
    Ticket next_ticket_ = 0;
    LoginQueue login_queue_;
    boost::asio::steady_timer login_timer_{io_};
    const Millis max_loop_lag_;
    Millis lag_ = 0;  ///< of the loop, when it was last measured
    int logins_this_turn_ = 0;
    bool logins_expected_ = false;  ///< a turn for them is on its way
    Conduct conduct_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::vector<Shard*> shards_;
    bool congested_ = false;  ///< a shard that we sent messages to has too many of them waiting
    bool stopping_ = false;
};

}  // namespace pulsegate
