#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "loadgen/crowd.h"

namespace pulsegate::load {

/// The clients that all vanish at once and all reconnect at once, as after an outage of a network.
/// Their connections are reset, so that no port stays in TIME_WAIT. A client that the server
/// refuses as busy, that loses its connection or gets no answer, retries after a backoff. Clients
/// that are back ping.
class Storm : public Crowd {
public:
    enum class Stage { gathering, ready, vanishing, returning, over };

    /// The progress of the storm, for the fleet.
    struct Status {
        Stage stage = Stage::gathering;
        Time at{};  ///< when this was reported
        std::uint32_t connected = 0;
        std::uint32_t failed = 0;
        std::uint32_t open = 0;
        std::uint32_t back = 0;
        std::uint64_t packets_sent = 0;
        std::uint64_t packets_received = 0;
    };
    using Report = std::function<void(const Status&)>;

    /// Calls `report` a few times a second, and when a stage begins.
    Storm(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target, std::uint64_t run,
          Report report);

    void gather(Time start_of_run);
    void strike(Time now);
    void leave() { disconnect_all(); }

private:
    void take_turn(Time now) override;
    Time next_turn() const override;
    void logged_in(Client& client, Time now) override;
    void is_due(Client& client, Time now) override;
    void received(Client& client, const Publish& packet, Time now) override;
    void lost(Client& client, Client::Stage stage, const std::string& cause) override;

    void enter(Stage next, Time now);
    void report_status(Time now);

    void vanish_some();
    void return_some();
    template <class Act>
    bool some(Act act);
    void attempt(Client& client, Time now);
    void came_back(Client& client, Time now);
    void end_if_settled(Time now);
    void retry_later(Client& client, const std::string& cause);

    Report report_;
    Stage stage_ = Stage::gathering;
    Time next_report_{};
    std::uint32_t open_ = 0;

    Time struck_at_{};
    std::vector<Client*> vanished_;
    std::size_t next_ = 0;  ///< index into `vanished_` of the next turn's first
};

/// Runs a storm on a thread of its own: opening thousands of connections would delay the reads of
/// the clients whose latency is measured. The two threads post to each other's event loop.
class StormThread {
public:
    /// `report` is called on `home`'s loop.
    StormThread(asio::io_context& home, const Plan& plan, const asio::ip::tcp::endpoint& target,
                std::uint64_t run, Storm::Report report);
    ~StormThread() { end(); }

    void gather(Time start_of_run);
    void strike(Time now);

    /// Returns when the thread has ended.
    const Results& end();

private:
    asio::io_context io_{1};
    Storm storm_;
    std::thread thread_;
};

}  // namespace pulsegate::load
