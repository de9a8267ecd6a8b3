#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <memory>
#include <string>
#include <vector>

#include "loadgen/torture/broker_process.h"
#include "loadgen/torture/publisher.h"
#include "loadgen/torture/receiver.h"
#include "loadgen/torture/report.h"
#include "loadgen/torture/retained_reader.h"
#include "loadgen/torture/scene.h"
#include "loadgen/torture/will_client.h"

namespace pulsegate::torture {

/// SIGINT or SIGTERM came: nothing can be judged.
struct Interrupted {};

/// One run: starts the broker and the clients, kills the one under the others, and waits until
/// everything has come that will come.
class Torture {
public:
    explicit Torture(const Options& options);

    /// Throws std::runtime_error if the broker does not serve, and Interrupted.
    Results run();

private:
    void start_broker(Duration patience);
    void kill_broker();
    void kill_and_start();
    bool accepts_connections();
    void set_up();
    void kill_at_random_moments();
    void drain();
    void await_quiet();
    void read_retained();

    template <class Condition>
    bool work_until(Time deadline, Condition done);
    void work_until(Time deadline);
    void tick(Time now);
    void watch_broker();
    void show_progress(Time now);
    template <class Visit>
    void for_each_client(Visit visit);

    const Options& options_;
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    boost::asio::signal_set signals_;
    bool interrupted_ = false;
    Scene scene_;
    BrokerProcess broker_;
    bool serving_ = false;  ///< the broker's port has been open since its start
    std::vector<std::unique_ptr<Publisher>> publishers_;
    std::vector<std::unique_ptr<Receiver>> receivers_;
    std::vector<std::unique_ptr<WillClient>> will_clients_;
    RetainedReader reader_;
    Time began_{};
    Time next_tick_{};
    Time next_line_{};
    Results results_;
};

}  // namespace pulsegate::torture
