#include "server/cluster/link/home_dial.h"

#include <fmt/format.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <cstdint>
#include <utility>

#include "server/base/hash.h"
#include "server/cluster/link/link_probe.h"
#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto redial_pause = std::chrono::milliseconds(250);

/// What is needed to connect to a home.
struct Dialer {
    HomeNode home{};
    std::shared_ptr<asio::ssl::context> tls{};
    LinkHello self{};
    std::chrono::milliseconds patience{};
};

/// A connection to a home that has accepted the request of an edge.
struct HomeVisit {
    std::shared_ptr<LinkSocket> socket{};  ///< null: it was not accepted
    LinkHello home{};
    std::uint64_t received = 0;  ///< the position up to which the home has received
    std::string why{};
    bool is_final = false;  ///< the home will not accept it later either
    bool accepts_no_edges = false;
};

/// Why this node cannot be an edge of the node that has answered; "" if it can.
std::string obstacle(const LinkVisit& visit, const LinkHello& self,
                     const std::string& incarnation) {
    const LinkHello& hello = visit.report.hello;
    if (visit.report.state != LinkReport::State::answered)
        return visit.error ? visit.error.message() : "no hello of a node has come";
    if (hello.incarnation != incarnation)
        return fmt::format("{} is there, not {}", hello.incarnation, incarnation);
    if (hello.birth != self.birth) return fmt::format("{} has another data set", hello.incarnation);
    if (!common_version(self.versions, hello.versions))
        return no_common_version(hello.incarnation, hello.versions, self.versions);
    if (hello.shards == 0)
        return fmt::format("{} accepts no edges: it does not own the data, or its version is older",
                           hello.incarnation);
    return {};
}

bool accepts_no_edges(const LinkReport& report, const std::string& incarnation) {
    return report.state == LinkReport::State::answered && report.hello.incarnation == incarnation &&
           report.hello.shards == 0;
}

/// Connects to a home. The first bytes after the edge's line show that the home has accepted the
/// edge.
asio::awaitable<HomeVisit> visit_home(Dialer dialer, EdgeRequest request) {
    asio::awaitable<LinkVisit> visiting =
        visit_link(dialer.home.address, dialer.tls, dialer.patience);
    LinkVisit visit = co_await std::move(visiting);
    HomeVisit result;
    result.why = obstacle(visit, dialer.self, dialer.home.incarnation);
    if (!result.why.empty()) {
        result.is_final = visit.report.state == LinkReport::State::answered ||
                          visit.report.is_gone(dialer.home.incarnation);
        result.accepts_no_edges = accepts_no_edges(visit.report, dialer.home.incarnation);
        co_return result;
    }
    const unsigned version =
        common_version(dialer.self.versions, visit.report.hello.versions).value_or(0);
    request.edge.versions = {version, version};
    const std::string line = to_edge_line(request);
    asio::awaitable<error_code> writing = visit.socket->write(line);
    error_code error = co_await std::move(writing);
    std::string& answer = visit.socket->unread();
    while (!error && answer != link_refusal && answer.size() < FrameStream::greeting_bytes) {
        asio::awaitable<error_code> reading = visit.socket->read_more();
        error = co_await std::move(reading);
    }
    const auto received = FrameStream::greeting(answer);
    if (received) {
        answer.erase(0, FrameStream::greeting_bytes);
        result.socket = std::move(visit.socket);
        result.home = std::move(visit.report.hello);
        result.home.versions = request.edge.versions;
        result.received = *received;
    } else if (error == boost::beast::error::timeout) {
        result.why = fmt::format("{} does not answer", dialer.home.incarnation);
    } else {
        result.why = fmt::format("{} has refused this node as its edge", dialer.home.incarnation);
        result.is_final = !error;
    }
    co_return result;
}

/// Dials again until the link has a connection, or has ended.
asio::awaitable<void> redial(std::shared_ptr<FrameStream> stream, Dialer dialer,
                             std::uint64_t link) {
    asio::steady_timer pause(co_await asio::this_coro::executor);
    while (stream->is_without_connection()) {
        EdgeRequest request{.edge = dialer.self, .link = link, .received = stream->received()};
        asio::awaitable<HomeVisit> visiting = visit_home(dialer, std::move(request));
        HomeVisit visit = co_await std::move(visiting);
        if (visit.socket) {
            stream->resume(std::move(visit.socket), visit.received);
        } else if (visit.is_final) {
            stream->end(
                fmt::format("its connection is lost, and there is no other: {}", visit.why));
            co_return;
        } else {
            pause.expires_after(redial_pause);
            co_await pause.async_wait(asio::use_awaitable);
        }
    }
}

}  // namespace

asio::awaitable<DialedHome> dial_home(HomeNode home, std::shared_ptr<asio::ssl::context> tls,
                                      LinkHello self, std::chrono::milliseconds patience) {
    Dialer dialer{std::move(home), std::move(tls), std::move(self), patience};
    EdgeRequest request{.edge = dialer.self, .link = random_key().low};
    const std::uint64_t link = request.link;
    asio::awaitable<HomeVisit> visiting = visit_home(dialer, std::move(request));
    HomeVisit visit = co_await std::move(visiting);
    DialedHome dialed;
    if (!visit.socket) {
        dialed.why = fmt::format("link to {}: {}", dialer.home.address, visit.why);
        dialed.accepts_no_edges = visit.accepts_no_edges;
        co_return dialed;
    }
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    dialed.stream = FrameStream::open(std::move(visit.socket), std::move(visit.home), link,
                                      FrameStream::limits_for(dialer.self.shards));
    dialed.stream->on_loss([executor, dialer, link, weak = std::weak_ptr(dialed.stream)] {
        if (const auto stream = weak.lock())
            asio::co_spawn(executor, redial(stream, dialer, link), asio::detached);
    });
    co_return dialed;
}

}  // namespace pulsegate
