#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "server/http/serving/http_stream.h"
#include "server/limits/address.h"

namespace pulsegate {

/// The origin and the rights of a connection.
struct HttpCaller {
    Address address{};
    bool is_spare = false;  ///< above the usual number: for health checks only
    bool is_local = false;  ///< over the Unix socket of the gateway's user and root
    bool has_tls = false;
    std::string node{};   ///< the other node that carries its request; or ""
    std::string token{};  ///< the name of its token on that node
    /// That node has admitted the client, and has proven that it is a node.
    bool is_let_in = false;
};

/// A connection to the HTTP API. It belongs to its coroutine in HttpServer.
struct HttpConnection
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    using Clock = std::chrono::steady_clock;
    enum class State : std::uint8_t {
        reads,    ///< waits for a complete request
        answers,  ///< the answer is being made
        writes,   ///< the client reads the answer
    };

    HttpConnection(HttpProtocol::socket socket, HttpCaller caller)
        : stream(std::move(socket)), from(std::move(caller)) {}

    HttpStream stream;
    const HttpCaller from;
    State state = State::reads;
    Clock::time_point moved = Clock::now();  ///< when it entered its state, or its client last read
};

/// The connections that have a place. When places are short, connections that don't need theirs are
/// closed. So neither silent clients nor clients that read no answers can lock out other clients.
class HttpConnections {
public:
    enum class Place : std::uint8_t { none, usual, spare };
    using State = HttpConnection::State;

    void add(HttpConnection& connection) { list_.push_back(connection); }

    void enter(HttpConnection& connection, State state) {
        connection.state = state;
        connection.moved = HttpConnection::Clock::now();
        if (connection.is_linked())  // otherwise it is being closed
            list_.splice(list_.end(), list_, list_.iterator_to(connection));
    }

    /// True if there is a place for one more connection over the Unix socket. Other connections
    /// can't take it.
    bool has_local_place() const {
        return count([](const HttpConnection& one) { return one.from.is_local; }) < most_local;
    }

    /// True if there is a place for one more request that another node carries.
    bool has_place_for_node() const { return count(is_of_node) < most; }

    /// Finds a place for one more connection from this address; another connection may be closed
    /// for it.
    Place make_room(const Address& address) {
        const auto is_usual = [](const HttpConnection& one) {
            return !one.from.is_spare && !one.from.is_local && !is_of_node(one);
        };
        const auto is_of_address = [&](const HttpConnection& one) {
            return is_usual(one) && one.from.address == address;
        };
        if (count(is_of_address) >= most_of_an_address)
            return end_one(is_of_address) ? Place::usual : spare_place();
        if (count(is_usual) < most || end_one(is_usual)) return Place::usual;
        return spare_place();
    }

private:
    static constexpr std::size_t most = 256;
    static constexpr std::size_t most_of_an_address = most / 4;
    static constexpr std::size_t most_spare = 8;
    static constexpr std::size_t most_local = 64;
    /// A client that reads takes some bytes within this time.
    static constexpr auto patience_with_reader = std::chrono::seconds(1);

    static bool is_of_node(const HttpConnection& one) { return !one.from.node.empty(); }

    Place spare_place() {
        const auto is_spare = [](const HttpConnection& one) { return one.from.is_spare; };
        return count(is_spare) < most_spare || end_one(is_spare) ? Place::spare : Place::none;
    }

    template <class Among>
    std::size_t count(Among among) const {
        return static_cast<std::size_t>(std::ranges::count_if(list_, among));
    }

    /// Closes the connection that has been idle for longest. False if all have a reason to stay.
    template <class Among>
    bool end_one(Among among) {
        const auto latest = HttpConnection::Clock::now() - patience_with_reader;
        const auto loser = std::ranges::find_if(list_, [&](const HttpConnection& one) {
            const bool reads = one.state == State::reads;
            const bool is_stuck = one.state == State::writes && one.moved <= latest;
            return among(one) && (reads || is_stuck);
        });
        if (loser == list_.end()) return false;
        loser->stream.close();
        loser->unlink();
        return true;
    }

    /// Ordered by the time of the last progress, the oldest first.
    boost::intrusive::list<HttpConnection, boost::intrusive::constant_time_size<false>> list_;
};

}  // namespace pulsegate
