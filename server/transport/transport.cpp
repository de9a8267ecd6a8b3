#include "server/transport/transport.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "server/log.h"
#include "server/transport/connection.h"
#include "server/transport/wrapping.h"

namespace pulsegate {

namespace {

constexpr std::size_t read_size = 64 * 1024;

/// How many connections end before others get their turn again.
constexpr std::size_t expiries_a_turn = 64;

/// Buffers above this size go back to the allocator, so that one burst does not stay in memory.
constexpr std::size_t largest_spare = 16 * 1024;
constexpr std::size_t most_spares = 256;

/// Each costs up to a millisecond; in between, others get their turn.
constexpr int handshakes_a_turn = 4;

/// How long a connection whose packets brought more work than a turn allows is left alone.
constexpr auto parking_time = std::chrono::milliseconds(1);

}  // namespace

Arrival::Arrival(int socket, std::unique_ptr<Wrapping> wrapping, std::string unread)
    : socket(socket), wrapping(std::move(wrapping)), unread(std::move(unread)) {}
Arrival::Arrival(Arrival&&) noexcept = default;
Arrival::~Arrival() = default;

Transport::Transport(boost::asio::io_context& io, const TransportSettings& settings,
                     Admission& admission, Counters& counters, ConnectionOwner& owner)
    : io_(io),
      settings_(settings),
      admission_(admission),
      counters_(counters),
      owner_(owner),
      wheel_(tick_at(monotonic_now())),
      received_(read_size),
      parking_(io) {}

Transport::~Transport() {
    hand_out_all([](Connection& connection) { connection.close(); });
}

void Transport::adopt(Arrival arrival) {
    const boost::intrusive_ptr connection(new Connection(*this));
    if (const auto error = connection->take(arrival.socket)) {
        ::close(arrival.socket);
        admission_.closed();
        return log_limited(spdlog::level::err, "a new connection was lost: {}", error.message());
    }
    connection->start(std::move(arrival.wrapping), arrival.unread);
}

void Transport::expire_due() {
    if (expiring_) return;
    const Tick now = tick_at(monotonic_now());
    const auto expire = [this](Wheel::Node& node) { last_look(static_cast<Connection&>(node)); };
    expiring_ = wheel_.advance(now, expire, expiries_a_turn);
    end_turn();
    if (!expiring_) return;
    boost::asio::post(io_, [this] {
        expiring_ = false;
        expire_due();
    });
}

/// The loop may have been late rather than the client silent: what waits in the socket is read
/// before the connection is given up.
void Transport::last_look(Connection& connection) {
    const boost::intrusive_ptr alive(&connection);
    if (connection.parked_)  // we do not listen to it, so its silence means nothing
        return wheel_.schedule(connection, wheel_.now() + 1);
    while (connection.reads() && !connection.scheduled() && connection.receive()) {
    }
    connection.settle();
    if (connection.scheduled()) {
        if (connection.reads()) ++counters_.rescues;
        return;
    }
    switch (connection.state_) {
        case Connection::State::open:
            return connection.end({Cause::timeout, Reason::keep_alive_timeout, "silent too long"});
        case Connection::State::login:
            ++counters_.login_timeouts;
            return connection.end(
                {Cause::timeout, Reason::success, "no CONNECT within the login timeout"});
        case Connection::State::lingering: return connection.close();
        case Connection::State::ending:
        case Connection::State::closed: return;
    }
}

void Transport::begin_work(const Connection& connection) {
    current_ = &connection;
    work_began_at_ = owner_.work();
}

bool Transport::overworked() {
    return owner_.work() - work_began_at_ > work_a_turn || owner_.congested();
}

void Transport::park(Connection& connection) {
    parked_.emplace_back(&connection);
    if (parked_.size() > 1) return;
    parking_.expires_after(parking_time);
    parking_.async_wait([this](boost::system::error_code error) {
        if (!error) resume_parked();
    });
}

void Transport::resume_parked() {
    const auto parked = std::exchange(parked_, {});
    const auto began_at = owner_.work();
    for (const auto& connection : parked) {
        if (connection->state_ == Connection::State::closed) continue;
        if (owner_.congested() || owner_.work() - began_at > work_a_turn)
            park(*connection);
        else
            connection->resume();
    }
    end_turn();
}

void Transport::queue_handshake(Connection& connection) {
    handshakes_.emplace_back(&connection);
    if (handshakes_.size() == 1) boost::asio::post(io_, [this] { shake_some_hands(); });
}

/// A storm of handshakes must not starve the living.
void Transport::shake_some_hands() {
    for (int i = 0; i < handshakes_a_turn && !handshakes_.empty(); ++i) {
        const auto connection = std::move(handshakes_.front());
        handshakes_.pop_front();
        connection->shake_hands();
    }
    if (!handshakes_.empty()) boost::asio::post(io_, [this] { shake_some_hands(); });
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
    hand_out_all([&](Connection& connection) {
        if (connection.reads())
            connection.end(ending);
        else
            connection.close();
    });
    end_turn();
}

/// Every connection waits on the wheel, so a jump past all deadlines hands all of them out.
template <class Visit>
void Transport::hand_out_all(Visit visit) {
    constexpr Tick past_all_deadlines = 200'000;
    wheel_.advance(wheel_.now() + past_all_deadlines,
                   [&](Wheel::Node& node) { visit(static_cast<Connection&>(node)); });
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
