// The beginning of a connection: its listener's handshake, and the wait until its CONNECT has been
// decided on.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "protocol/decode.h"
#include "server/base/log.h"
#include "server/base/text/url.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// The bytes of a close_notify alert in its record, with AES-GCM in TLS 1.2; other suites need
/// fewer. A record of MQTT of this size can hold only a PINGREQ or a DISCONNECT.
constexpr int close_notify_bytes = 31;

constexpr const char* no_memory =
    "clients that are not logged in use too much of memory-budget, and this address uses the most";

}  // namespace

// -- PROXY, TLS, WebSocket --

/// Continues the handshake that its listener requires.
void Connection::proceed_handshake(bool may_run_tls) {
    Handshake& handshake = *extras_->arrival->handshake;
    const auto step = handshake.proceed(socket_.get(), *extras_, may_run_tls);
    if (const auto idle = handshake.take_tls_idle()) context_.counters.count(*idle);
    if (extras_->proxied_peer && !origin_.address.known()) admit();
    if (origin_.standing == AddressLimits::Standing::refused_silently) return reject();
    switch (step) {
        case Handshake::Step::reads:
            unread_ = false;
            if (lacks_memory()) end({Cause::kicked, Reason::success, no_memory});
            return;
        case Handshake::Step::writes: return wait_to_proceed();
        case Handshake::Step::tls:
            // Before TLS the client can't be told anything, and TLS is the expensive part.
            if (origin_.standing != AddressLimits::Standing::ok) return reject();
            queued_ = true;
            ++awaited_turns_;
            return (tls() || small_tls() ? context_.begun_handshakes : context_.handshakes)
                .add(*this);
        case Handshake::Step::refused:
            ++context_.counters.handshakes_refused;
            return end({Cause::kicked, Reason::success, handshake.why()});
        case Handshake::Step::gone:
            return end({Cause::connection_lost, Reason::success,
                        "the client left before its handshake was complete"});
        case Handshake::Step::done: break;
    }
    // Checked again, because it may take less memory than its handshake did.
    if (lacks_memory()) return end({Cause::kicked, Reason::success, no_memory});
    const std::string unread = handshake.take_unread();
    extras_->arrival->certificate = handshake.take_certificate();
    extras_->arrival->handshake.reset();
    if (websocket()) {
        auto& buffer = context_.input.buffer();
        std::copy(unread.begin(), unread.end(), buffer.begin());
        read_frames({buffer.data(), unread.size()}, monotonic_now());
    }
}

/// Admits the client by the address that the proxy has stated.
void Connection::admit() {
    origin_.address = Address(extras_->proxied_peer->address());
    origin_.standing = context_.counts.address_limits.enter(origin_.address, monotonic_now());
    tell_arrival();
}

void Connection::tell_arrival() const {
    const auto described = [this] {
        return boost::json::object{{"event", "connected"}, {"listener", listener()}};
    };
    context_.tracer.tell({.link = this}, described);
}

/// Rejects the connection without an answer. If too many connections wait for their rejection
/// already, it is closed at once.
void Connection::reject() {
    context_.counters.count(origin_.standing == AddressLimits::Standing::banned
                                ? Limit::ban_failures
                                : Limit::max_connections_per_address);
    ++context_.counters.handshakes_refused;
    constexpr const char* why = "rejected: its address is banned or has too many connections";
    if (origin_.standing != AddressLimits::Standing::refused_silently)
        return end({Cause::kicked, Reason::success, why});
    context_.tracer.tell({.link = this}, [] { return traced_rejection(); });
    log_limited(spdlog::level::warn, "{} {}", LoggedAddress{peer()}, LoggedReason{why});
    close();
}

/// Does its address use too much of the memory for clients that are not logged in, including the
/// memory that the handshake keeps now?
bool Connection::lacks_memory() {
    const auto unopened = small_tls() ? small_tls()->kept() : 0;
    Arrival& arrival = *extras_->arrival;
    const auto bytes = arrival.handshake->kept() + unopened;
    auto& memory = context_.counts.admission.unauthenticated();
    if (memory.resize(arrival.memory, origin_.address, bytes)) return false;
    context_.counters.count(Limit::memory_budget);
    ++context_.counters.handshakes_refused;
    return true;
}

/// From now on its memory counts as memory of a logged-in client.
void Connection::open() {
    state_ = State::open;
    if (extras_) extras_->arrival.reset();
    if (channel()) channel()->tell_accepted(limit_, largest_packet_);
}

bool Connection::shake_hands() {
    --awaited_turns_;
    queued_ = false;
    if (!reads() || !handshaking()) return false;
    // A signature for a client that has gone would be wasted work. Later, its packets may be here.
    const bool begins = !tls() && !small_tls();
    if (begins ? departure() != 0 : reset_by_peer()) {
        end({Cause::connection_lost, Reason::success,
             "the client left before its handshake was complete"});
        return false;
    }
    if (begins)
        extras_->arrival->handshake->expect_tls_memory(TlsSession::memory_for(socket_.get()));
    if (lacks_memory())
        end({Cause::kicked, Reason::success, no_memory});
    else
        proceed_handshake(true);
    settle();
    read_on();
    return true;
}

void Connection::wait_to_proceed() {
    queued_ = true;
    wait_writable();
}

// -- its CONNECT --

void Connection::hold(Millis wait) {
    queued_ = true;
    // Its CONNECT has arrived, so any further delay is the gateway's.
    context_.wheel.schedule(*this,
                            tick_after(monotonic_now() + wait + context_.settings.login_timeout));
}

/// The state of the peer as poll reports it: POLLRDHUP if it has closed its side, POLLHUP and
/// POLLERR if the connection is broken.
short Connection::departure() {
    if (channel()) return channel()->has_ended() ? POLLRDHUP : 0;
    pollfd peer{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
    ::poll(&peer, 1, 0);
    return peer.revents;
}

bool Connection::reset_by_peer() { return departure() & (POLLHUP | POLLERR); }

bool Connection::peer_gone() {
    const auto departed = departure();
    if (departed == 0) return false;
    if (departed & (POLLHUP | POLLERR)) return true;
    if (channel()) return channel()->unread() == 0;
    int unread = 0;
    ::ioctl(socket_.get(), FIONREAD, &unread);
    if (tls()) unread += static_cast<int>(tls()->kept());
    if (context_.input.is_of(*this) && !context_.input.rest.empty()) return false;
    if (partial_ || (small_tls() && small_tls()->has_record())) return false;
    return unread <= (tls() || small_tls() ? close_notify_bytes : 0);
}

void Connection::go_on(Bytes connect) {
    if (!held()) return;
    const Millis now = monotonic_now();
    queued_ = false;
    open();
    last_packet_ = now;
    context_.wheel.schedule(*this, due_at(now));
    parked_ = too_fast(connect, now);
    consume({}, now);
    end_websocket();
    settle();
    read_on();
}

Handoff Connection::release() {
    const auto kept = take_unfinished();
    std::string unread = kept ? std::move(*kept) : std::string();
    if (!queued_) unread = as_text(context_.input.rest);  // its CONNECT is being handled
    context_.rounds.poller().remove(socket_.get(), *this);
    if (extras_) count_record(0);
    Handoff handoff(std::move(socket_), std::move(extras_), origin_, context_.counts);
    handoff.version = version_;
    handoff.unread = std::move(unread);
    if (out_) handoff.unsent = out_->substr(sent_);
    close();
    return handoff;
}

// -- the peer --

std::optional<boost::asio::ip::tcp::endpoint> Connection::endpoint() const {
    if (extras_ && extras_->proxied_peer) return *extras_->proxied_peer;
    return peer_of(socket_.get());
}

std::string Connection::peer() const {
    const auto from = endpoint();
    if (!from) return origin_.address.known() ? origin_.address.text() : "a peer that has gone";
    return address_text(from->address(), from->port());
}

std::string_view Connection::listener() const { return context_.listener_names[origin_.listener]; }

/// On a listener for both families, an IPv4 address is written as such.
std::string Connection::address() const {
    const auto from = endpoint();
    return from ? address_text(from->address()) : "";
}

std::optional<ClientCertificate> Connection::certificate() const {
    if (tls()) return client_certificate(tls()->ssl());
    return extras_ && extras_->arrival ? extras_->arrival->certificate : std::nullopt;
}

}  // namespace pulsegate
