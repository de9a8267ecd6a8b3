#include "server/login/key_server.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <future>
#include <string>

#include "tests/support/addresses.h"
#include "tests/support/quiet_log.h"

using namespace pulsegate;
using boost::asio::ip::tcp;

TEST_CASE("a login of another address takes a place of the address that waits most for keys") {
    const QuietLog quiet;
    boost::asio::io_context io;
    const tcp::acceptor silent(io, {boost::asio::ip::address_v4::loopback(), 0});
    std::promise<std::string> turned_away;
    KeyServer keys({.url = HttpUrl{.host = "127.0.0.1", .port = silent.local_endpoint().port()},
                    .ca_file = ""});
    const auto await = [&](std::uint32_t from, const std::string& user) {
        keys.await(address(from), user, [&, user](KeyServer::Waited waited) {
            if (waited == KeyServer::Waited::too_many) turned_away.set_value(user);
        });
    };
    constexpr int places = 2000;
    for (int i = 0; i < places; ++i) await(1, "crowd");
    await(2, "alice");
    auto user = turned_away.get_future();
    REQUIRE(user.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    CHECK(user.get() == "crowd");
    keys.stop();
}
