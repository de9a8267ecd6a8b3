#include "server/transport/transport.h"

#include <unistd.h>

#include <algorithm>
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

/// Reads before a connection is given up: as much as may wait in a socket without a whole packet in
/// it. WebSocket pongs, or packets' beginnings under TLS, may come as fast as they are read.
constexpr int most_looks = 256;

/// For a newcomer whose time was up while it waited for its turn.
constexpr Tick ticks_to_answer = 2;

/// What thousands may want at once, when a network fails and comes back: the living would wait for
/// all of them. A handshake costs up to a millisecond.
constexpr std::size_t newcomers_a_turn = 2;
constexpr std::size_t handshakes_a_turn = 2;
constexpr std::size_t burials_a_turn = 2;

}  // namespace

Arrival::Arrival(int socket, std::unique_ptr<Wrapping> wrapping, Visit visit, std::string unread)
    : socket(socket), wrapping(std::move(wrapping)), visit(visit), unread(std::move(unread)) {}
Arrival::Arrival(Arrival&&) noexcept = default;
Arrival::~Arrival() = default;

Transport::Transport(boost::asio::io_context& io, const TransportSettings& settings,
                     Admission& admission, Visitors& visitors, Counters& counters,
                     ConnectionOwner& owner)
    : io_(io),
      settings_(settings),
      admission_(admission),
      visitors_(visitors),
      counters_(counters),
      owner_(owner),
      wheel_(tick_at(monotonic_now())),
      received_(read_size),
      parking_(io),
      newcomers_(io, newcomers_a_turn, &Connection::come_in),
      handshakes_(io, handshakes_a_turn, &Connection::shake_hands),
      lost_(io, burials_a_turn, &Connection::bury) {}

Transport::~Transport() {
    hand_out_all([](Connection& connection) { connection.close(); });
}

void Transport::accept(int socket, std::unique_ptr<Wrapping> wrapping, const Address& peer) {
    const Visit visit{peer, visitors_.enter(peer, monotonic_now())};
    if (visit.standing != Visitors::Standing::shut_out)
        return adopt({socket, std::move(wrapping), visit});
    ::close(socket);
    admission_.closed();
    visitors_.leave(peer);
    ++counters_.entrances_refused;
    log_limited(spdlog::level::warn,
                "{} turned away: its address is banned or has too many connections", peer.text());
}

void Transport::adopt(Arrival arrival) {
    const boost::intrusive_ptr connection(new Connection(*this));
    if (const auto error = connection->take(arrival.socket)) {
        ::close(arrival.socket);
        admission_.closed();
        visitors_.leave(arrival.visit.address);
        return log_limited(spdlog::level::err, "a new connection was lost: {}", error.message());
    }
    connection->start(std::move(arrival.wrapping), arrival.visit, arrival.unread);
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
    if (connection.parked_ &&
        connection.reads())  // we do not listen to it, so its silence means nothing
        return wheel_.schedule(connection, wheel_.now() + 1);
    if (connection.ping_websocket()) return;
    const bool waited_for_us = connection.awaited_turns_ > 0;
    for (int looks = 0; looks < most_looks; ++looks)
        if (!connection.reads() || connection.scheduled() || !connection.receive()) break;
    connection.settle();
    if (connection.scheduled()) {
        if (connection.reads()) ++counters_.rescues;
        return connection.wait_readable();
    }
    switch (connection.state_) {
        case Connection::State::open:
            return connection.end({Cause::timeout, Reason::keep_alive_timeout, "silent too long"});
        case Connection::State::login:
            if (waited_for_us) return wheel_.schedule(connection, wheel_.now() + ticks_to_answer);
            ++counters_.login_timeouts;
            return connection.end({Cause::timeout, Reason::success,
                                   connection.queued_ && !connection.entering()
                                       ? "no verdict on its CONNECT within the login timeout"
                                       : "no CONNECT within the login timeout"});
        case Connection::State::lingering: return connection.close();
        case Connection::State::lost:
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

void Transport::park(Connection& connection, Millis until) {
    const auto place = parked_.emplace(until, &connection);
    if (place == parked_.begin()) wait_for_parked();
}

void Transport::wait_for_parked() {
    const Millis left = parked_.begin()->first - monotonic_now();
    parking_.expires_after(std::chrono::milliseconds(std::max<Millis>(left, 1)));
    parking_.async_wait([this](boost::system::error_code error) {
        if (!error) resume_parked();
    });
}

void Transport::resume_parked() {
    const Millis now = monotonic_now();
    const auto began_at = owner_.work();
    std::vector<boost::intrusive_ptr<Connection>> due;
    while (!parked_.empty() && parked_.begin()->first <= now)
        due.push_back(std::move(parked_.extract(parked_.begin()).mapped()));
    for (const auto& connection : due) {
        if (connection->state_ == Connection::State::closed) continue;
        if (owner_.congested() || owner_.work() - began_at > work_a_turn)
            park(*connection, now + 1);
        else
            connection->resume();
    }
    if (!parked_.empty()) wait_for_parked();
    end_turn();
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
    // Who is lost or thrown out already keeps its own ending, and still has to come to it.
    hand_out_all([&](Connection& connection) {
        if (connection.state_ == Connection::State::lingering)
            connection.close();
        else
            connection.end(ending);
    });
    lost_.serve_all();
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
