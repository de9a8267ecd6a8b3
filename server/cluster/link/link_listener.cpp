#include "server/cluster/link/link_listener.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "server/base/files/socket_pair.h"
#include "server/base/log.h"
#include "server/cluster/link/frame_stream.h"
#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto identification_time = 2s;

}  // namespace

LinkListener::LinkListener(asio::io_context& io, const LinkSettings& settings,
                           std::shared_ptr<asio::ssl::context> tls,
                           std::function<LinkHello()> hello)
    : acceptor_(io), tls_(std::move(tls)), hello_(std::move(hello)) {
    const auto endpoint = link_endpoint(settings);
    error_code error;
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
        throw std::runtime_error(
            fmt::format("link-listen: {}: {}; another node runs there, or choose another port",
                        settings.listen, error.message()));
    asio::co_spawn(io, accept(), asio::detached);
}

asio::awaitable<void> LinkListener::accept() {
    asio::steady_timer pause(acceptor_.get_executor());
    for (;;) {
        error_code error;
        auto token = asio::redirect_error(asio::use_awaitable, error);
        asio::ip::tcp::socket socket = co_await acceptor_.async_accept(token);
        if (!acceptor_.is_open()) co_return;
        if (error) {  // perhaps too many files are open
            pause.expires_after(100ms);
            co_await pause.async_wait(token);
        } else {
            if (std::ssize(unidentified_) >= most_unidentified_links) close_oldest_unidentified();
            asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)), asio::detached);
        }
    }
}

/// A node states its purpose at once, so the oldest unidentified one is probably not a node.
void LinkListener::close_oldest_unidentified() {
    unidentified_.front()->tcp().close();
    // `serve` will erase it soon.
    unidentified_.splice(unidentified_.end(), unidentified_, unidentified_.begin());
}

asio::awaitable<void> LinkListener::serve(asio::ip::tcp::socket socket) {
    const auto peer =
        std::make_shared<LinkSocket>(boost::beast::tcp_stream(std::move(socket)), tls_);
    const auto place = unidentified_.insert(unidentified_.end(), peer);
    peer->tcp().expires_after(identification_time);
    asio::awaitable<error_code> handshake = peer->handshake(asio::ssl::stream_base::server);
    error_code error = co_await std::move(handshake);
    const std::string line = to_line(hello());
    asio::awaitable<error_code> writing = peer->write(line);
    if (!error) error = co_await std::move(writing);
    asio::awaitable<std::optional<std::string>> reading = peer->read_line(longest_link_answer);
    std::optional<std::string> answer;
    if (!error) answer = co_await std::move(reading);
    const std::string birth = hello().birth;
    const std::optional<LinkHello> asker = parse_link_hello(answer.value_or(""));
    if (asker && asker->birth == birth) note_asker(*asker);
    auto request = parse_request_line(answer.value_or(""));
    if (request && request->node.birth == birth) {
        request->is_of_node = peer->has_tls();
        if (UniqueFd end = hand_over(*std::move(request))) {
            unidentified_.erase(place);
            ++requests_;
            asio::awaitable<void> carrying = carry(peer, std::move(end));
            co_await std::move(carrying);
            --requests_;
            co_return;
        }
    }
    const std::optional<EdgeRequest> edge = parse_edge_line(answer.value_or(""));
    const bool is_edge = edge && edge->edge.birth == birth;
    if (!is_edge || !speaks_version_of(*edge) || !hand_over(peer, *edge)) {
        asio::awaitable<void> refusing = refuse(peer, is_edge && !error);
        co_await std::move(refusing);
    }
    unidentified_.erase(place);
}

/// Closes its sending side and waits until the other side closes. If it closed with unread data,
/// the system could discard the refusal before the other node has read it.
asio::awaitable<void> LinkListener::refuse(std::shared_ptr<LinkSocket> peer, bool says_so) {
    error_code error;
    if (says_so) {
        asio::awaitable<error_code> writing = peer->write(link_refusal);
        error = co_await std::move(writing);
    }
    peer->tcp().socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    char rest[64];
    const asio::mutable_buffer room = asio::buffer(rest);
    error = {};
    auto token = asio::redirect_error(asio::use_awaitable, error);
    while (!error) co_await peer->tcp().async_read_some(room, token);
}

LinkHello LinkListener::hello() const {
    LinkHello hello = hello_();
    const std::lock_guard lock(mutex_);
    hello.shards = shards_;
    return hello;
}

/// The latest statement of the node counts, because Redis may have gone away for it meanwhile.
void LinkListener::note_asker(const LinkHello& asker) {
    const std::lock_guard lock(asker_mutex_);
    if (asker.has_redis) {
        asker_with_redis_ = asker.incarnation;
        asked_with_redis_ = boot_now();
    } else if (asker.incarnation == asker_with_redis_) {
        asker_with_redis_.clear();
    }
}

bool LinkListener::was_asked_with_redis(Millis most) const {
    const std::lock_guard lock(asker_mutex_);
    return !asker_with_redis_.empty() && asked_with_redis_ > boot_now() - most;
}

void LinkListener::accept_edges(unsigned shards, EdgeHandler handler,
                                RequestHandler request_handler) {
    const std::lock_guard lock(mutex_);
    shards_ = shards;
    edge_handler_ = std::move(handler);
    request_handler_ = std::move(request_handler);
}

/// If an edge knows the range of this node, it sends no version that is not in it. Logs it once for
/// an edge that comes again and again.
bool LinkListener::speaks_version_of(const EdgeRequest& request) {
    const LinkHello& edge = request.edge;
    const LinkVersions ours = hello_().versions;
    if (common_version(edge.versions, ours)) return true;
    if (std::exchange(refused_for_version_, edge.incarnation) != edge.incarnation)
        spdlog::warn("link refused: {}", no_common_version(edge.incarnation, edge.versions, ours));
    return false;
}

/// Returns the socket with the bytes to be carried; nothing if this node answers no requests, or
/// already carries too many.
UniqueFd LinkListener::hand_over(CarriedRequest request) {
    const std::lock_guard lock(mutex_);
    if (!request_handler_ || requests_ >= most_carried_requests) return {};
    auto [ours, theirs] = socket_pair();
    if (ours) request_handler_(std::move(theirs), std::move(request));
    return std::move(ours);
}

/// Returns false if this node accepts no edges, or does not know the link that the edge wants to
/// continue. It is also false for a connection that the edge has given up meanwhile: the link goes
/// on with a later one.
bool LinkListener::hand_over(std::shared_ptr<LinkSocket> socket, EdgeRequest request) {
    const std::lock_guard lock(mutex_);
    if (!edge_handler_) return false;
    if (request.received) {
        const auto known =
            FrameStream::find(socket->tcp().get_executor(), request.edge.incarnation, request.link);
        return known && !known->is_outdated(*request.received) &&
               known->resume(std::move(socket), *request.received);
    }
    const auto stream = FrameStream::open(std::move(socket), std::move(request.edge), request.link,
                                          FrameStream::limits_for(shards_));
    stream->greet();
    edge_handler_(stream);
    return true;
}

}  // namespace pulsegate
