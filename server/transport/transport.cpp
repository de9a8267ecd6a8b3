#include "server/transport/transport.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/transport/connection.h"

namespace pulsegate {

namespace {

constexpr std::size_t read_size = 64 * 1024;

/// How many connections end before others get their turn again.
constexpr std::size_t expiries_a_turn = 64;

/// Buffers above this size go back to the allocator, so that one burst does not stay in memory.
constexpr std::size_t largest_spare = 16 * 1024;
constexpr std::size_t most_spares = 256;

}  // namespace

Transport::Transport(boost::asio::io_context& io, const TransportSettings& settings,
                     Admission& admission, Counters& counters, ConnectionOwner& owner)
    : io_(io),
      settings_(settings),
      admission_(admission),
      counters_(counters),
      owner_(owner),
      wheel_(tick_at(monotonic_now())),
      received_(read_size) {}

Transport::~Transport() = default;

void Transport::adopt(Arrival arrival) {
    const boost::intrusive_ptr connection(new Connection(*this, arrival.socket));
    connection->start(arrival.unread);
}

void Transport::tick() { expire_due(); }

void Transport::expire_due() {
    const Tick now = tick_at(monotonic_now());
    const auto expire = [this](Wheel::Node& node) { last_look(static_cast<Connection&>(node)); };
    const bool more = wheel_.advance(now, expire, expiries_a_turn);
    end_turn();
    if (more) boost::asio::post(io_, [this] { expire_due(); });
}

/// The loop may have been late rather than the client silent: what waits in the socket is read
/// before the connection is given up.
void Transport::last_look(Connection& connection) {
    const boost::intrusive_ptr alive(&connection);
    const Millis now = monotonic_now();
    if (connection.reads()) connection.receive(now);
    connection.settle();
    if (connection.scheduled() && connection.reads()) {
        ++counters_.rescues;
        return;
    }
    switch (connection.state_) {
        case Connection::State::open:
            return connection.end({Cause::timeout, Reason::keep_alive_timeout, "silent too long"});
        case Connection::State::login:
            ++counters_.login_timeouts;
            return connection.end(
                {Cause::timeout, Reason::success, "no CONNECT within the login timeout"});
        case Connection::State::lingering:
            if (!connection.scheduled()) connection.close();
            return;
        case Connection::State::ending:
        case Connection::State::closed: return;
    }
}

void Transport::end_turn() {
    // Settling one connection may make others dirty: the list grows while it is walked.
    for (std::size_t i = 0; i < dirty_.size(); ++i) {
        const auto connection = std::move(dirty_[i]);
        connection->dirty_ = false;
        connection->settle();
    }
    dirty_.clear();
}

void Transport::end_all(const Ending& ending) {
    // Every connection waits on the wheel, and no deadline is further away than this.
    constexpr Tick doomsday = 1u << 31;
    wheel_.advance(doomsday, [&](Wheel::Node& node) {
        auto& connection = static_cast<Connection&>(node);
        if (connection.reads())
            connection.end(ending);
        else
            connection.close();
    });
    end_turn();
}

void Transport::mark_dirty(Connection& connection) {
    if (connection.dirty_ || &connection == current_) return;
    connection.dirty_ = true;
    dirty_.emplace_back(&connection);
    if (std::exchange(turn_end_posted_, true)) return;
    boost::asio::post(io_, [this] {
        turn_end_posted_ = false;
        end_turn();
    });
}

std::unique_ptr<Buffer> Transport::take_buffer() {
    if (spare_.empty()) return std::make_unique<Buffer>();
    auto buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
}

void Transport::give_back(std::unique_ptr<Buffer> buffer) {
    if (buffer->capacity() > largest_spare || spare_.size() >= most_spares) return;
    buffer->clear();
    spare_.push_back(std::move(buffer));
}

}  // namespace pulsegate
