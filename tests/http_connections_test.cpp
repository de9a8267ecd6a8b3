#include "server/http/serving/http_connections.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <list>
#include <utility>

using namespace pulsegate;

namespace {

using Place = HttpConnections::Place;
using State = HttpConnection::State;

/// Connections that come from address 1, 2, …, without sockets.
struct HttpCrowd {
    /// The place that one more gets.
    Place come(unsigned from, State state, std::chrono::seconds ago = {}) {
        const Address address{boost::asio::ip::address_v4(from)};
        const Place place = all.make_room(address);
        if (place == Place::none) return place;
        HttpCaller caller{.address = address, .is_spare = place == Place::spare};
        auto& one = connections.emplace_back(HttpProtocol::socket(io), std::move(caller));
        all.add(one);
        all.enter(one, state);
        one.moved -= ago;
        return place;
    }

    bool has_left(std::size_t number) {
        return !std::next(connections.begin(), static_cast<std::ptrdiff_t>(number))->is_linked();
    }

    boost::asio::io_context io;
    HttpConnections all;
    std::list<HttpConnection> connections;
};

}  // namespace

TEST_CASE("an address has a quarter of the places for HTTP, and then spare ones") {
    HttpCrowd crowd;
    for (int i = 0; i < 64; ++i) REQUIRE(crowd.come(1, State::answers) == Place::usual);
    for (int i = 0; i < 8; ++i) REQUIRE(crowd.come(1, State::answers) == Place::spare);
    CHECK(crowd.come(1, State::answers) == Place::none);
    CHECK(crowd.come(2, State::answers) == Place::usual);
}

TEST_CASE(
    "a connection that waits for a request, or reads no answer, gives up its place for another") {
    using namespace std::chrono_literals;
    HttpCrowd crowd;
    for (unsigned from = 1; from <= 4; ++from)
        for (int i = 0; i < 64; ++i) crowd.come(from, i == 9 ? State::writes : State::answers, 2s);
    CHECK(crowd.come(5, State::writes) == Place::usual);
    CHECK(crowd.has_left(9));
    CHECK(crowd.come(4, State::reads) == Place::usual);  // its own, for it has a quarter
    CHECK(crowd.has_left(3 * 64 + 9));
    CHECK(crowd.come(4, State::answers) == Place::usual);
    CHECK(crowd.has_left(257));
    for (int i = 0; i < 2; ++i) CHECK(crowd.come(6, State::answers) == Place::usual);
    CHECK(crowd.come(6, State::answers) == Place::spare);  // address 5 has read just now
}

TEST_CASE("a spare place for HTTP is given up by one that does not ask") {
    HttpCrowd crowd;
    for (int i = 0; i < 64; ++i) crowd.come(1, State::answers);
    for (int i = 0; i < 8; ++i) CHECK(crowd.come(1, State::reads) == Place::spare);
    CHECK(crowd.come(1, State::reads) == Place::spare);
    CHECK(crowd.has_left(64));
    CHECK_FALSE(crowd.has_left(65));
}
