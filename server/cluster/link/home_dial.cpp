#include "server/cluster/link/home_dial.h"

#include <fmt/format.h>

#include <boost/beast/core/error.hpp>
#include <utility>

#include "server/cluster/link/link_probe.h"
#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Why this node cannot be an edge of the node that has answered; "" if it can.
std::string obstacle(const LinkVisit& visit, const LinkHello& self,
                     const std::string& incarnation) {
    const LinkHello& hello = visit.report.hello;
    if (visit.report.state != LinkReport::State::answered)
        return visit.error ? visit.error.message() : "no hello of a node has come";
    if (hello.incarnation != incarnation)
        return fmt::format("{} is there, not {}", hello.incarnation, incarnation);
    if (hello.birth != self.birth) return fmt::format("{} has another data set", hello.incarnation);
    if (hello.shards == 0)
        return fmt::format("{} accepts no edges: it does not own the data, or its version is older",
                           hello.incarnation);
    return {};
}

}  // namespace

asio::awaitable<DialedHome> dial_home(HomeNode home, std::shared_ptr<asio::ssl::context> tls,
                                      LinkHello self, std::chrono::milliseconds patience) {
    asio::awaitable<LinkVisit> visiting = visit_link(home.address, std::move(tls), patience);
    LinkVisit visit = co_await std::move(visiting);
    DialedHome dialed;
    dialed.why = obstacle(visit, self, home.incarnation);
    if (dialed.why.empty()) {
        const std::string line = to_edge_line(self);
        asio::awaitable<error_code> writing = visit.socket->write(line);
        error_code error = co_await std::move(writing);
        // The home shows with the first bytes that it has accepted this node.
        asio::awaitable<error_code> reading = visit.socket->read_more();
        if (!error) error = co_await std::move(reading);
        if (error == boost::beast::error::timeout)
            dialed.why = fmt::format("{} does not answer", home.incarnation);
        else if (error)
            dialed.why = fmt::format("{} has refused this node as its edge", home.incarnation);
    }
    if (dialed.why.empty())
        dialed.stream =
            FrameStream::open(std::move(visit.socket), std::move(visit.report.hello), {});
    else
        dialed.why = fmt::format("link to {}: {}", home.address, dialed.why);
    co_return dialed;
}

}  // namespace pulsegate
