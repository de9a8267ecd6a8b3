#include "loadgen/lab/worker_listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "loadgen/lab/token.h"
#include "loadgen/net/address.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr Duration patience_of_all = 600s;
constexpr Duration patience_of_unknown = 10s;
constexpr std::size_t most_connected = 64;
constexpr std::size_t most_at_once = 16;
constexpr std::uint32_t largest_of_unknown = 256;
constexpr int exchanges_of_clocks = 20;

Descriptor listening(const SocketAddress& address) {
    Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (!socket || ::bind(socket.get(), address.get(), address.size()) != 0 ||
        ::listen(socket.get(), 64) != 0)
        throw std::runtime_error(
            fmt::format("--coordinator-listen: {}; choose another port", std::strerror(errno)));
    return socket;
}

std::uint16_t port_of(const Descriptor& listener) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

WorkerListener::WorkerListener(const RemoteWorkers& remote) : token_(remote.token) {
    const auto host = remote.host.empty() ? std::string("0.0.0.0") : remote.host;
    listener_ = listening(resolve(host, remote.port).at(0));
    port_ = port_of(listener_);
}

WorkerListener::Arrival WorkerListener::next(Interruption& interruption) {
    const Time enough = Clock::now() + patience_of_all;
    while (Clock::now() < enough) {
        std::vector<pollfd> polled{{interruption.fd(), POLLIN, 0}};
        if (has_room()) polled.push_back({listener_.get(), POLLIN, 0});
        for (const Caller& caller : connected_) polled.push_back({caller.link.fd(), POLLIN, 0});
        ::poll(polled.data(), polled.size(), 100);
        if (interruption.take()) throw Interrupted("interrupted before all workers had come");
        for (auto each = connected_.begin(); each != connected_.end();) {
            if (!hear(*each)) {
                each = connected_.erase(each);
            } else if (each->asked > exchanges_of_clocks) {
                Arrival arrival{std::move(each->link), each->address, each->clock};
                arrival.link.allow(largest_frame);
                connected_.erase(each);
                return arrival;
            } else {
                ++each;
            }
        }
        accept_some();
    }
    throw std::runtime_error(
        fmt::format("--coordinator-listen: no worker came within {}", show(patience_of_all)));
}

bool WorkerListener::has_room() const {
    return connected_.size() < most_connected || !std::ranges::all_of(connected_, &Caller::known);
}

/// If there are too many connections, closes the oldest one that has not shown the token.
void WorkerListener::make_room() {
    if (connected_.size() < most_connected) return;
    connected_.erase(std::ranges::find(connected_, false, &Caller::known));
}

// Accepts few at once, so that each of them is heard before new ones can displace it.
void WorkerListener::accept_some() {
    for (std::size_t count = 0; count < most_at_once && has_room(); ++count) {
        sockaddr_storage address{};
        socklen_t size = sizeof(address);
        Descriptor socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) return;
        const int on = 1;
        ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        const SocketAddress from(reinterpret_cast<const sockaddr*>(&address), size);
        make_room();
        connected_.push_back(
            {ControlLink(std::move(socket), largest_of_unknown), from.text(), Clock::now()});
    }
}

/// False: the connection must be closed.
bool WorkerListener::hear(Caller& caller) {
    const bool alive = caller.link.move();
    while (const auto frame = caller.link.next())
        if (!hear_frame(caller, *frame)) return false;
    return alive && Clock::now() - caller.since < patience_of_unknown;
}

bool WorkerListener::hear_frame(Caller& caller, const Frame& frame) try {
    if (!caller.known) {
        caller.known = frame.kind == FrameKind::token && same_token(frame.body, token_);
        if (caller.known)
            ask_time(caller);
        else
            caller.link.send(FrameKind::json,
                             json::serialize(json::object{{"type", "refused"},
                                                          {"text",
                                                           "the token is not the same as "
                                                           "the coordinator's"}}));
        return caller.known;
    }
    const auto message = json::parse(frame.body).as_object();
    if (message.at("type").as_string() != "time") return false;
    const Time theirs{Duration(message.at("now").to_number<std::int64_t>())};
    caller.clock.add(caller.asked_at, theirs, Clock::now());
    ask_time(caller);
    return true;
} catch (const std::exception&) {
    return false;
}

void WorkerListener::ask_time(Caller& caller) {
    if (++caller.asked > exchanges_of_clocks) return;
    caller.asked_at = Clock::now();
    caller.link.send(FrameKind::json, R"({"type":"time"})");
}

}  // namespace pulsegate::load
