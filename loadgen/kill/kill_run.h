#pragma once

#include <optional>

#include "loadgen/kill/broker_clock.h"
#include "loadgen/kill/broker_process.h"
#include "loadgen/kill/clients.h"
#include "loadgen/kill/feed_reader.h"
#include "loadgen/kill/gateway.h"
#include "loadgen/kill/results.h"
#include "loadgen/kill/retained_reader.h"
#include "loadgen/kill/run_context.h"
#include "loadgen/net/interruption.h"
#include "loadgen/net/loop.h"

namespace pulsegate::kill {

/// One run: starts the broker and the clients, kills or stops the broker while the clients run, and
/// waits until all messages have arrived that will arrive.
class KillRun {
public:
    KillRun(const Options& options, load::Interruption& interruption);

    /// Throws std::runtime_error if the broker does not serve, and load::Interrupted.
    Results run();

private:
    void start_broker(Duration patience);
    void start_process();
    void have_standby();
    bool serves(Time now);
    void kill_edge();
    bool kills_edge_next();
    void kill_broker();
    bool knows_standby();
    void stop_broker();
    void broker_ends(BrokerEnd how);
    void set_up();
    void ask_for_rooms();
    std::uint32_t ends() const;
    bool stop_comes_next() const;
    void end_at_random_moments();
    void end_at(Time moment);
    void end_and_start();
    void kill_while_starting();
    void step_clock(std::uint32_t ends);
    void drain();
    void await_quiet();
    void read_retained();

    template <class Condition>
    bool work_until(Time deadline, Condition done);
    void work_until(Time deadline);
    void tick(Time now);
    void note_stall(Time now);
    void watch_broker();
    void judge_presence(Time now);
    void show_progress(Time now);

    const Options& options_;
    load::Interruption& interruption_;
    load::Loop loop_;
    RunContext context_;
    const DataFolder data_;
    unsigned nodes_ = 1;       ///< started so far, if they are a cluster
    std::uint16_t place_ = 0;  ///< of the broker; an edge has the other one
    BrokerProcess broker_;
    BrokerClock clock_;
    Duration ahead_{};                         ///< how far the broker's clock is ahead
    Duration last_step_{};                     ///< of the broker's clock
    std::optional<Duration> standby_ahead_{};  ///< how far the standby's clock is ahead
    bool serving_ = false;                     ///< the broker has begun to serve
    Clients clients_;
    RetainedReader retained_;
    FeedReader feed_;
    Time began_{};
    Time served_{};  ///< when the present broker began to serve
    Time next_tick_{};
    Time next_line_{};
    Time next_judgement_{};
    Time next_question_{};  ///< when to ask a node next
    Results results_;
};

}  // namespace pulsegate::kill
