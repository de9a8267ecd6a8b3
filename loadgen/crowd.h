#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "loadgen/client.h"
#include "loadgen/plan.h"
#include "loadgen/results.h"
#include "loadgen/schedule.h"
#include "loadgen/verdict.h"

namespace pulsegate::load {

/// Owns clients on one event loop and its thread: connects them at the planned rate, sends their
/// pings and reads the server's packets. The derived class decides what else they do, and what a
/// lost connection means. It never sends less because the server is slow.
class Crowd {
public:
    const Results& results() const { return results_; }

protected:
    Crowd(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target,
          std::uint64_t run);
    ~Crowd() = default;

    // Decided by the derived class.
    virtual void take_turn(Time now) = 0;  ///< called at `next_turn` or before
    virtual Time next_turn() const = 0;
    virtual void logged_in(Client& client, Time now) = 0;
    virtual void is_due(Client& client, Time now) = 0;
    virtual void received(Client& client, const Publish& packet, Time now) = 0;
    virtual void acknowledged(Client&, const Puback&) {}
    virtual void ping_answered(Time /*sent*/, Duration /*took*/) {}
    virtual void lost(Client& client, Client::Stage stage, const std::string& cause) = 0;
    virtual void stalled(Time /*planned*/, Duration /*late*/) {}

    // Time: one timer drives all planned actions.
    void begin(Time start);
    void plan_next(Client& client, Time due);
    Time start() const { return start_; }

    // The ramp.
    void start_ramp(Time now);
    void ramp(Time now);
    bool ramped() const { return ramp_.taken() == clients_.size() && in_progress_ == 0; }
    Time next_in_ramp() const;
    void settle(Client& client, Time now);
    void fail(Client& client, const std::string& cause);

    // The stages of a client.
    void connect(Client& client, Time now);
    void start_talking(Client& client, Time now);
    void ping(Client& client, Time now);
    void send(Client& client);  // sends packet_
    void lose(Client& client, const std::string& cause);
    void judge_lost_talker(Client& client, const std::string& cause);

    /// Sends DISCONNECT for all clients and ends the loop.
    void disconnect_all();
    void count_overdue_pings(Time now);
    void give_example(std::string text);

    Close close_of(const Client& client, Time now) const;
    bool overslept(const Client& client) const;
    Duration limit_of(const Client& client) const;
    std::string topic_of(std::uint32_t client) const;
    std::string id_of(std::uint32_t client) const;
    double random(double from, double to);

    asio::io_context& io_;
    const Plan plan_;
    const std::uint64_t run_;
    std::mt19937_64 dice_;
    Results results_;
    std::uint64_t packets_sent_ = 0;
    std::uint64_t packets_received_ = 0;
    std::deque<Client> clients_;
    Wheel wheel_;
    Buffer packet_;

private:
    static constexpr std::size_t buffer_size = 65'536;
    static_assert(buffer_size > max_packet_size);

    void step();
    void note_stall(Time planned, Time now);
    void arm();
    Tick tick(Time time) const;
    void attend(Client& client, Time now);

    void log_in(Client& client);
    void await_packets(Client& client);
    void await_room(Client& client);

    // Packets of the server.
    void receive(Client& client);
    void handle(Client& client, const Packet& packet, Time now);
    void on(Client& client, const Connack& packet, Time now);
    void on(Client& client, const Suback& packet, Time now);
    void on(Client& client, const Publish& packet, Time now);
    void on(Client& client, const Puback& packet, Time now);
    void on(Client& client, const Pingresp& packet, Time now);
    void on(Client& client, const Disconnect& packet, Time now);
    template <class Unexpected>
    void on(Client& client, const Unexpected& packet, Time now);

    asio::ip::address source_of(std::uint32_t client) const;

    const asio::ip::tcp::endpoint target_;
    Time start_{};
    asio::steady_timer timer_;
    bool stopped_ = false;

    // All packets that were readable before this time have been read: the timer was set for it, the
    // poller reports events in their order, and the timer has fired.
    Time seen_until_{};

    using Due = std::pair<Time, Client*>;
    // The wheel has a resolution of a second; clients that are due within the current one wait
    // here.
    std::priority_queue<Due, std::vector<Due>, std::greater<>> this_second_;

    Schedule ramp_;
    std::uint32_t in_progress_ = 0;
    std::unique_ptr<std::uint8_t[]> buffer_;
};

}  // namespace pulsegate::load
