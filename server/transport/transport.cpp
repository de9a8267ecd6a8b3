#include "server/transport/transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/log.h"
#include "server/transport/connections/connection.h"
#include "server/transport/connections/turn_work.h"

namespace pulsegate {

namespace {

/// The maximum number of connections that end before other connections get their turn.
constexpr std::size_t expiries_a_turn = 64;
/// And the most work: each tells those who watch its user, and may have a will for very many.
constexpr std::uint64_t work_of_expiries = work_a_turn / 2;

/// When a network fails and comes back, thousands of clients may want these at once. Without
/// limits, connected clients would wait for all of them. A handshake costs up to a millisecond.
constexpr std::size_t unauthenticated_a_turn = 2;
constexpr std::size_t handshakes_a_turn = 2;
constexpr std::size_t teardowns_a_turn = 2;

/// Reads of one buffer each, for connections with more input than fits.
constexpr std::size_t reads_a_turn = 64;

Connection& connection_of(Wheel::Node& node) { return static_cast<Connection&>(node); }

}  // namespace

ConnectionContext::ConnectionContext(Rounds& its_rounds, const TransportSettings& limits,
                                     ConnectionCounts counted, Counters& statistics, Tracer& traces,
                                     ConnectionOwner& shard)
    : rounds(its_rounds),
      tracer(traces),
      settings(limits),
      counts(counted),
      counters(statistics),
      owner(shard),
      wheel(tick_at(monotonic_now())),
      backlog(counted.admission.connection_bytes().backlog),
      unfinished(counted.admission.connection_bytes().unfinished),
      turn(its_rounds),
      input(shard, turn),
      flush_list(its_rounds),
      parked(its_rounds, shard, turn, flush_list),
      unread(its_rounds, reads_a_turn, TurnQueue::Turns::in_order, &Connection::read_pending),
      unauthenticated(its_rounds, unauthenticated_a_turn, TurnQueue::Turns::by_address,
                      &Connection::read_pending),
      handshakes(its_rounds, handshakes_a_turn, TurnQueue::Turns::by_address,
                 &Connection::shake_hands),
      begun_handshakes(its_rounds, handshakes_a_turn, TurnQueue::Turns::by_address,
                       &Connection::shake_hands),
      lost(its_rounds, teardowns_a_turn, TurnQueue::Turns::in_order, &Connection::teardown) {}

Transport::Transport(Rounds& rounds, const TransportSettings& settings, ConnectionCounts counts,
                     Counters& counters, Tracer& tracer, ConnectionOwner& owner)
    : context_(rounds, settings, counts, counters, tracer, owner) {}

Transport::~Transport() {
    context_.wheel.for_each([](Wheel::Node& node) { connection_of(node).close(); });
}

void Transport::name_listener(std::uint16_t number, std::string name) {
    auto& names = context_.listener_names;
    if (names.size() <= number) names.resize(number + std::size_t{1});
    names[number] = std::move(name);
    context_.connections_by_listener.resize(names.size());
}

std::vector<std::pair<std::string, std::size_t>> Transport::connections_by_listener() const {
    std::vector<std::pair<std::string, std::size_t>> all;
    all.reserve(context_.listener_names.size());
    for (std::size_t i = 0; i < context_.listener_names.size(); ++i)
        all.emplace_back(context_.listener_names[i], context_.connections_by_listener[i]);
    return all;
}

void Transport::accept(UniqueFd socket, std::unique_ptr<ConnectionExtras> extras,
                       const Address& peer, std::uint16_t listener) {
    const auto standing = context_.counts.address_limits.enter(peer, monotonic_now());
    const Origin origin{peer, standing, listener};
    Handoff accepted(std::move(socket), std::move(extras), origin, context_.counts);
    if (origin.standing == AddressLimits::Standing::refused_silently) {
        ++context_.counters.handshakes_refused;
        context_.tracer.tell({.address = peer}, [] { return traced_rejection(); });
        return log_limited(spdlog::level::warn,
                           "{} rejected: its address is banned or has too many connections",
                           LoggedAddress{peer.text()});
    }
    const auto connection = take(std::move(accepted));
    if (connection && peer.known()) connection->tell_arrival();
}

boost::intrusive_ptr<Connection> Transport::adopt(Handoff handoff) {
    auto connection = take(std::move(handoff));
    if (connection) connection->hold(0);
    return connection;
}

/// Such a connection counts neither against the limit on open files nor against the limits by
/// address, because the other node counts it.
boost::intrusive_ptr<Connection> Transport::adopt(std::unique_ptr<Channel> channel,
                                                  const boost::asio::ip::tcp::endpoint& client,
                                                  const std::string& listener, Version version) {
    const Origin origin{.address = Address(client.address()), .listener = number_of(listener)};
    auto extras = std::make_unique<ConnectionExtras>();
    extras->channel = std::move(channel);
    extras->proxied_peer = std::make_unique<const boost::asio::ip::tcp::endpoint>(client);
    ++context_.elsewhere;
    Handoff handoff({}, std::move(extras), origin, context_.counts);
    handoff.version = version;
    return adopt(std::move(handoff));
}

boost::intrusive_ptr<Connection> Transport::adopt(UniqueFd socket, const ConnectionRecord& record) {
    boost::system::error_code error;
    const auto peer = boost::asio::ip::make_address(record.peer, error);
    const Address address = error ? Address() : Address(peer);
    // The connection exists already, so it is counted however many there are.
    context_.counts.admission.opened();
    static_cast<void>(context_.counts.address_limits.enter(address, monotonic_now()));
    const Origin origin{.address = address, .listener = number_of(record.listener)};
    Handoff handoff(std::move(socket), nullptr, origin, context_.counts);
    boost::intrusive_ptr connection(new Connection(context_));
    return connection->adopt(handoff, record) ? connection : nullptr;
}

/// A removed listener also has a number while it still has connections.
std::uint16_t Transport::number_of(const std::string& listener) {
    const auto& names = context_.listener_names;
    const auto number =
        static_cast<std::uint16_t>(std::ranges::find(names, listener) - names.begin());
    if (number == names.size()) name_listener(number, listener);
    return number;
}

void Transport::wake(Millis rest) {
    context_.rest = Rest::none;
    std::vector<boost::intrusive_ptr<Connection>> all;
    all.reserve(context_.connections);
    visit([&](Connection& each) { all.emplace_back(&each); });
    for (const auto& each : all) each->wake(rest);
}

void Transport::visit(const std::function<void(Connection&)>& visit) {
    context_.wheel.for_each([&](Wheel::Node& node) { visit(connection_of(node)); });
}

boost::intrusive_ptr<Connection> Transport::take(Handoff handoff) {
    thread_.assert_here();
    boost::intrusive_ptr connection(new Connection(context_));
    if (!connection->take(handoff)) {
        log_limited(spdlog::level::err, "a new connection was lost: {}", std::strerror(errno));
        return nullptr;
    }
    return connection;
}

void Transport::expire_due() {
    thread_.assert_here();
    if (!expiring_) expire(tick_at(monotonic_now()));
}

/// If more is due, it continues with the time of this tick, as `Shard::tick_broker` does.
void Transport::expire(Tick now) {
    if (context_.rest != Rest::none) return;
    const auto on_due = [](Wheel::Node& node) { connection_of(node).on_due(); };
    const auto began_at = context_.owner.work();
    const auto may_go_on = [&] { return context_.owner.work() - began_at < work_of_expiries; };
    expiring_ = true;
    for (std::size_t left = expiries_a_turn; expiring_ && left > 0 && may_go_on(); --left)
        expiring_ = context_.wheel.advance(now, on_due, 1);
    end_turn();
    if (!expiring_) return context_.spare_buffers.free_unneeded();
    context_.rounds.later([this, now] {
        expiring_ = false;
        expire(now);
    });
}

Evicted Transport::end_some(const Address& address, const Ending& ending,
                            const std::function<void(Session&)>& visit) {
    constexpr std::size_t most = 512;  // the maximum of visited connections
    thread_.assert_here();
    Evicted evicted;
    context_.wheel.for_each([&](Wheel::Node& node) {
        Connection& connection = connection_of(node);
        const bool is_meant = connection.session && connection.origin().address == address;
        if (!is_meant || connection.is_lost()) return;
        if (connection.is_ending()) {
            ++evicted.leaving;
        } else if (evicted.disconnected < most) {
            ++evicted.disconnected;
            visit(*connection.session);
            connection.end(ending);
        }
    });
    end_turn();
    return evicted;
}

void Transport::ask_to_leave(std::size_t most, const Ending& ending, Unanswered unanswered) {
    thread_.assert_here();
    if (most == 0) return;
    const bool stays = unanswered == Unanswered::stay;
    context_.wheel.for_each_while([&](Wheel::Node& node) {
        Connection& connection = connection_of(node);
        if (!context_.owner.is_accepted(connection) || connection.channel()) return true;
        if (connection.is_lost() || connection.is_ending()) return true;
        if (stays && context_.owner.has_unanswered(connection)) return true;
        connection.end(ending);
        return --most > 0;
    });
    end_turn();
}

void Transport::end_all(const Ending& ending) {
    thread_.assert_here();
    context_.wheel.for_each([&](Wheel::Node& node) { connection_of(node).shut_down(ending); });
    context_.lost.serve_all();
    end_turn();
}

}  // namespace pulsegate
