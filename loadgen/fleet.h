#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "loadgen/client.h"
#include "loadgen/ledger.h"
#include "loadgen/plan.h"
#include "loadgen/results.h"
#include "loadgen/schedule.h"
#include "loadgen/verdict.h"

namespace pulsegate::load {

/// All clients of a run, on one thread: connects them at the planned rate, keeps talkers alive and
/// talking, lets the others fall silent, and records what came of it. It never holds back because
/// the server is slow, and judges nothing but the moment of a close.
class Fleet {
public:
    enum class Phase { ramping, running, draining, done };

    /// What a progress line may want to know; lent for the call.
    struct Glance {
        Phase phase;
        Duration elapsed;       ///< in this phase
        Duration length;        ///< of this phase, as far as it is known
        std::uint64_t packets;  ///< sent and received in this phase
        std::uint32_t open;
        const Results& results;
    };
    using Watch = std::function<void(const Glance&)>;

    Fleet(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target);

    /// Returns when the run is over. Calls `watch` a few times a second.
    void run(Watch watch);

    /// Ends the run soon, with what there is.
    void interrupt();

    const Results& results() const { return results_; }

private:
    static constexpr std::size_t buffer_size = 65'536;
    static_assert(buffer_size > max_packet_size);
    static constexpr Duration ping_timeout = std::chrono::seconds(10);

    // Time: one timer drives everything that is planned.
    void step();
    void note_stall(Time planned, Time now);
    void arm();
    void glance(Time now);
    Tick tick(Time time) const;
    void plan_next(Client& client, Time due);
    void attend(Client& client, Time now);

    // The phases.
    Duration enter(Phase next, Time now);
    void start_running(Time now);
    void start_draining(Time now);
    void finish(Time now);
    bool silence_settled(Time now) const;
    void count_what_is_missing(Time now);

    // A client's life.
    void connect_due(Time now);
    void connect(Client& client, Time now);
    void log_in(Client& client);
    void await_packets(Client& client);
    void await_room(Client& client);
    void send(Client& client);  // what is in packet_
    void ping(Client& client, Time now);
    void start_talking(Client& client, Time now);
    void fall_silent(Client& client, Time now);

    // What the server said.
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

    // What went wrong.
    void lose(Client& client, const std::string& cause);
    void lose_newcomer(Client& client, const std::string& cause);
    void lose_talker(Client& client, const std::string& cause);
    void lose_silent(Client& client);
    Close close_of(const Client& client, Time now) const;
    bool overslept(const Client& client) const;
    void give_example(std::string text);

    void send_due_messages(Time now);
    void send_message(Time planned);
    void remove_talker(Client& client);

    std::uint32_t open_clients() const;  // once the ramp is over
    Duration limit_of(const Client& client) const;
    std::string topic_of(std::uint32_t client) const;
    std::string id_of(std::uint32_t client) const;
    asio::ip::address source_of(std::uint32_t client) const;
    double random(double from, double to);

    asio::io_context& io_;
    const Plan plan_;
    const asio::ip::tcp::endpoint target_;
    const std::uint64_t run_;
    std::mt19937_64 dice_;
    Watch watch_;
    Results results_;

    Phase phase_ = Phase::ramping;
    Time start_{};
    Time phase_start_{};
    Time next_glance_{};
    std::uint64_t packets_at_phase_start_ = 0;
    Duration cpu_at_start_{};
    std::uint64_t packets_sent_ = 0;
    std::uint64_t packets_received_ = 0;
    asio::steady_timer timer_;

    // All that was ready to be read before this time has been read: the timer was set for it, the
    // poller reports first what was ready first, and the timer's turn has come.
    Time seen_until_{};

    std::deque<Client> clients_;
    Wheel wheel_;
    using Due = std::pair<Time, std::uint32_t>;
    // The wheel brings clients up when their second begins; here they wait for their moment in it.
    std::priority_queue<Due, std::vector<Due>, std::greater<>> this_second_;

    Schedule ramp_;
    std::uint32_t in_progress_ = 0;
    Schedule messages_;
    std::vector<Client*> talkers_;
    Ledger ledger_;

    std::uint32_t yet_to_fall_silent_ = 0;
    std::uint32_t silent_open_ = 0;
    Time last_judgement_{};

    std::unique_ptr<std::uint8_t[]> buffer_;
    Buffer packet_;
    Buffer payload_;
};

}  // namespace pulsegate::load
