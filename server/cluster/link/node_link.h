#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/cluster/link/home_dial.h"
#include "server/cluster/link/link_certificates.h"
#include "server/cluster/link/link_listener.h"
#include "server/cluster/link/link_probe.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

/// This node's link. It listens, and asks other nodes, on its own thread, so that no other thread
/// waits for an absent node. The streams of frames between edges and homes are on this thread, too.
/// Any thread may call it.
class NodeLink {
public:
    /// `pause` is the time before nodes are asked again. `hello` is called on the link's thread,
    /// and on the thread that calls `ask`. Throws std::runtime_error with the remedy.
    NodeLink(const LinkSettings& settings, Millis pause, std::function<LinkHello()> hello);
    ~NodeLink();
    NodeLink(const NodeLink&) = delete;
    NodeLink& operator=(const NodeLink&) = delete;

    /// The address for other nodes.
    const std::string& address() const { return address_; }

    /// Empty without certificates.
    const std::vector<CertificateEnd>& certificates() const { return certificates_; }

    /// Asks all these nodes repeatedly until the next call.
    void watch(std::set<std::string> addresses);

    /// The latest answer of a watched node, if it is not older than `most`. Nothing if there is
    /// none yet.
    std::optional<LinkReport> report(const std::string& address, Millis most) const;

    /// Asks once, and waits up to a second for the answer.
    LinkReport ask(const std::string& address);

    /// See LinkListener.
    bool was_asked_with_redis(Millis most) const { return listener_.was_asked_with_redis(most); }

    /// Accepts edges and requests or refuses them, as LinkListener says.
    void accept_edges(unsigned shards, LinkListener::EdgeHandler handler,
                      LinkListener::RequestHandler request_handler) {
        listener_.accept_edges(shards, std::move(handler), std::move(request_handler));
    }
    void refuse_edges() { listener_.refuse_edges(); }

    /// Connects to a home as its edge; this node has `shards` shards. `done` is called on the
    /// link's thread, unless the link is destroyed first.
    void dial(HomeNode home, unsigned shards, std::function<void(DialedHome)> done);
    /// Carries an HTTP request from this socket to a home, with this node as `request.node`. Closes
    /// the socket if the home does not accept it.
    void carry(HomeNode home, CarriedRequest request, UniqueFd socket);

private:
    struct Dated {
        LinkReport report{};
        std::optional<Millis> asked{};  ///< by `boot_now`
    };

    boost::asio::awaitable<void> keep_asking();
    boost::asio::awaitable<void> ask_watched(std::string address);
    boost::asio::awaitable<void> carry_to(HomeNode home, CarriedRequest request, UniqueFd socket);
    boost::asio::awaitable<void> dial_and_tell(HomeNode home, unsigned shards,
                                               std::function<void(DialedHome)> done);

    boost::asio::io_context io_{1};
    const std::chrono::milliseconds pause_;
    const std::shared_ptr<boost::asio::ssl::context> tls_;
    const std::vector<CertificateEnd> certificates_;
    const std::function<LinkHello()> hello_;
    LinkListener listener_;
    std::string address_;
    mutable std::mutex mutex_;
    std::map<std::string, Dated> watched_;  ///< guarded by the mutex
    std::thread thread_;
};

}  // namespace pulsegate
