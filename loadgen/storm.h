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

/// The clients that all vanish at once and all come back at once, as after an outage of a network.
/// Their connections are reset, so that no port stays in TIME_WAIT. Who is told that the server is
/// busy, loses its connection or gets no answer tries again after a while. Who is back pings.
class Storm : public Crowd {
public:
    enum class Stage { gathering, ready, vanishing, returning, over };

    /// How far it is, for who conducts the run.
    struct News {
        Stage stage = Stage::gathering;
        Time at{};  ///< of the news
        std::uint32_t connected = 0;
        std::uint32_t failed = 0;
        std::uint32_t open = 0;
        std::uint32_t back = 0;
        std::uint64_t packets_sent = 0;
        std::uint64_t packets_received = 0;
    };
    using Tell = std::function<void(const News&)>;

    /// Calls `tell` a few times a second, and when a stage begins.
    Storm(asio::io_context& io, const Plan& plan, asio::ip::tcp::endpoint target, std::uint64_t run,
          Tell tell);

    void gather(Time start_of_run);
    void strike(Time now);
    void leave() { disband(); }

private:
    void take_turn(Time now) override;
    Time next_turn() const override;
    void came_in(Client& client, Time now) override;
    void is_due(Client& client, Time now) override;
    void received(Client& client, const Publish& packet, Time now) override;
    void lost(Client& client, Client::Stage stage, const std::string& cause) override;

    void enter(Stage next, Time now);
    void tell_news(Time now);

    void vanish_some();
    void return_some();
    template <class Act>
    bool some(Act act);
    void attempt(Client& client, Time now);
    void came_back(Client& client, Time now);
    void end_if_settled(Time now);
    void turned_away(Client& client, const std::string& cause);

    Tell tell_;
    Stage stage_ = Stage::gathering;
    Time next_news_{};
    std::uint32_t open_ = 0;

    Time struck_at_{};
    std::vector<Client*> vanished_;
    std::size_t next_ = 0;  ///< of the vanished, to be treated in the next turn
};

/// Runs a storm on a thread of its own: opening thousands of connections would hold up the reading
/// of those whose latency is measured. The two sides speak by posting to each other's loop.
class StormThread {
public:
    /// `hear` is called on `home`'s loop.
    StormThread(asio::io_context& home, const Plan& plan, const asio::ip::tcp::endpoint& target,
                std::uint64_t run, Storm::Tell hear);
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
