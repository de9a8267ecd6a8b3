#include "server/login/key_server.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <future>
#include <string>

#include "tests/support/addresses.h"
#include "tests/support/patience.h"
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
    REQUIRE(user.wait_for(test_patience) == std::future_status::ready);
    CHECK(user.get() == "crowd");
    keys.stop();
}

TEST_CASE("a reload during a fetch fetches again") {
    const QuietLog quiet;
    boost::asio::io_context io;
    tcp::acceptor provider(io, {boost::asio::ip::address_v4::loopback(), 0});
    const KeyServerSettings settings{
        .url = HttpUrl{.host = "127.0.0.1", .port = provider.local_endpoint().port()},
        .ca_file = ""};
    KeyServer keys(settings);
    {
        tcp::socket first = provider.accept();
        keys.use(settings);
        std::string question;
        boost::asio::read_until(first, boost::asio::dynamic_buffer(question), "\r\n\r\n");
        const std::string set =
            R"({"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a",)"
            R"("x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})";  // RFC 8037, appendix A
        boost::asio::write(
            first, boost::asio::buffer(fmt::format(
                       "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                       set.size(), set)));
    }
    bool has_asked_again = false;
    provider.async_accept([&](auto error, const tcp::socket&) { has_asked_again = !error; });
    io.run_for(test_patience);
    CHECK(has_asked_again);
    REQUIRE(keys.keys());
    CHECK(keys.keys()->keys.size() == 1);
    keys.stop();
}
