// How a client comes in: the part of a connection that goes through the door, and waits with its
// CONNECT for whoever decides on it.
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "protocol/decode.h"
#include "server/transport/connection.h"

namespace pulsegate {

// -- the door
// ---------------------------------------------------------------------------------------

/// Reads what a newcomer has said.
bool Connection::come_in() {
    const bool there = reads();
    listening_ = false;
    hear();
    return there;
}

/// Goes on through the door that it came in by.
void Connection::enter(bool may_shake_hands) {
    Entrance& entrance = *wrapping_->entrance;
    const auto step = entrance.proceed(socket_.native_handle(), *wrapping_, may_shake_hands);
    if (wrapping_->origin && !visit_.address.known()) welcome();
    if (visit_.standing == Visitors::Standing::shut_out) return turn_away();
    switch (step) {
        case Entrance::Step::reads: return;
        case Entrance::Step::writes: return wait_to_enter();
        case Entrance::Step::handshake:
            // Nothing can be said before TLS, and TLS is what costs.
            if (visit_.standing != Visitors::Standing::welcome) return turn_away();
            queued_ = true;
            return wrapping_->tls ? transport_.handshakes_.add_first(*this)
                                  : transport_.handshakes_.add(*this);
        case Entrance::Step::refused:
            ++transport_.counters_.entrances_refused;
            return end({Cause::kicked, Reason::success, entrance.why()});
        case Entrance::Step::gone:
            return end({Cause::connection_lost, Reason::success, "gone before it had come in"});
        case Entrance::Step::done: break;
    }
    const std::string unread = entrance.take_unread();
    wrapping_->entrance.reset();
    if (websocket()) {
        std::copy(unread.begin(), unread.end(), transport_.received_.begin());
        read_frames({transport_.received_.data(), unread.size()}, monotonic_now());
    }
}

/// The proxy has said who the client is.
void Connection::welcome() {
    visit_.address = Address(wrapping_->origin->address());
    visit_.standing = transport_.visitors_.enter(visit_.address, monotonic_now());
}

/// Without a word.
void Connection::turn_away() {
    transport_.counters_.count(visit_.standing == Visitors::Standing::banned
                                   ? Limit::ban_failures
                                   : Limit::max_connections_per_address);
    ++transport_.counters_.entrances_refused;
    end({Cause::kicked, Reason::success,
         "turned away: its address is banned or has too many connections"});
}

bool Connection::shake_hands() {
    queued_ = false;
    if (!reads() || !entering()) return false;
    enter(true);
    settle();
    wait_readable();
    return true;
}

void Connection::wait_to_enter() {
    queued_ = true;
    socket_.async_wait(Socket::wait_write,
                       [self = boost::intrusive_ptr(this)](boost::system::error_code error) {
                           self->queued_ = false;
                           if (error || !self->reads() || !self->entering()) return;
                           self->enter(false);
                           self->settle();
                           self->wait_readable();
                       });
}

// -- its CONNECT
// ------------------------------------------------------------------------------------

void Connection::keep(Application application) {
    if (!wrapping_) wrapping_ = std::make_unique<Wrapping>();
    wrapping_->application = std::make_unique<Application>(std::move(application));
}

Application Connection::take_application() {
    if (!wrapping_ || !wrapping_->application) return {};
    const auto application = std::move(wrapping_->application);
    if (wrapping_->plain()) wrapping_.reset();
    return std::move(*application);
}

void Connection::hold(Millis wait) {
    queued_ = true;
    // Its CONNECT is here: what takes time now is ours.
    transport_.wheel_.schedule(
        *this, tick_after(monotonic_now() + wait + transport_.settings_.login_timeout));
}

/// What poll says of the peer: POLLRDHUP if it has closed its side, POLLHUP and POLLERR if the
/// connection has broken.
short Connection::departure() {
    pollfd peer{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
    ::poll(&peer, 1, 0);
    return peer.revents;
}

bool Connection::reset_by_peer() { return departure() & (POLLHUP | POLLERR); }

bool Connection::held() {
    if (state_ != State::login || !queued_) return false;
    const auto departed = departure();
    if (departed == 0) return true;
    if (departed & (POLLHUP | POLLERR)) return false;
    // It has closed its side. Who said more than CONNECT before is to be heard.
    int unread = 0;
    ::ioctl(socket_.native_handle(), FIONREAD, &unread);
    const auto connect = next_frame(as_bytes(*partial_), transport_.settings_.max_packet_size);
    return unread > 0 || partial_->size() > connect.size;
}

void Connection::go_on(Application application) {
    if (state_ != State::login || !queued_) return;
    queued_ = false;
    keep(std::move(application));
    consume({}, monotonic_now());
    settle();
    wait_readable();
}

Arrival Connection::release(Application application) {
    keep(std::move(application));
    Arrival arrival(-1, std::move(wrapping_), visit_, std::string(as_text(transport_.unread_)));
    arrival.socket = socket_.release();
    close();
    return arrival;
}

// -- who it is
// --------------------------------------------------------------------------------------

std::string Connection::address() const {
    const auto from = endpoint();
    return from ? unmapped(from->address()).to_string() : "";
}

std::optional<std::string> Connection::certificate_name() const {
    if (!tls()) return std::nullopt;
    return pulsegate::certificate_name(tls());
}

}  // namespace pulsegate
