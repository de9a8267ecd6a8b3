#include "server/transport/connections/handoff.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <utility>

#include "server/base/files/unique_fd.h"
#include "server/transport/handshakes/connection_extras.h"

using namespace pulsegate;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

UniqueFd any_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

}  // namespace

TEST_CASE("a descriptor is closed by its last owner, unless it was released") {
    const int fd = any_socket().release();
    CHECK(is_open(fd));
    {
        UniqueFd first(fd);
        UniqueFd second(std::move(first));
        CHECK_FALSE(first);
        CHECK(second.get() == fd);
        first = std::move(second);
        CHECK(is_open(fd));
    }
    CHECK_FALSE(is_open(fd));
    CHECK_FALSE(UniqueFd());
}

TEST_CASE("a connection that is not taken over is closed, and counts no more") {
    const Address address(boost::asio::ip::make_address("10.0.0.7"));
    Admission admission({.max_connections = 10}, 0);
    AddressLimits address_limits({.max_connections_per_address = 1});
    const auto standing = [&] {
        const auto found = address_limits.enter(address, 0);
        address_limits.leave(address);
        return found;
    };
    admission.opened();
    const Origin origin{address, address_limits.enter(address, 0)};
    const int fd = any_socket().release();
    {
        Handoff accepted(UniqueFd(fd), nullptr, origin, {admission, address_limits});
        const Handoff moved(std::move(accepted));
        CHECK(admission.open() == 1);
        CHECK(standing() == AddressLimits::Standing::too_many);
    }
    CHECK_FALSE(is_open(fd));
    CHECK(admission.open() == 0);
    CHECK(standing() == AddressLimits::Standing::ok);
}

TEST_CASE("a connection still counts after its socket was taken over") {
    Admission admission({.max_connections = 10}, 0);
    AddressLimits address_limits({});
    admission.opened();
    UniqueFd taken;
    {
        Handoff accepted(any_socket(), nullptr, {}, {admission, address_limits});
        taken = std::move(accepted.socket);
    }
    CHECK(is_open(taken.get()));
    CHECK(admission.open() == 1);
}
