// Passes connections to the process that replaces this one, in an upgrade. At rest they neither
// read nor write. They are described, and continue in the other process, or here if the upgrade
// fails.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

constexpr std::int64_t ns_of_ms = 1'000'000;

WebSocketRecord websocket_record(const WebSocketState& websocket) {
    const Unframer::State state = websocket.unframer.state();
    WebSocketRecord record{.left = state.left,
                           .empty_frames = state.empty_frames,
                           .is_inside_message = state.inside_message,
                           .rest = websocket.rest};
    std::memcpy(&record.mask, state.mask.data(), sizeof record.mask);
    return record;
}

std::unique_ptr<WebSocketState> websocket_state(const WebSocketRecord& record) {
    Unframer::State state{.left = record.left,
                          .empty_frames = record.empty_frames,
                          .inside_message = record.is_inside_message};
    std::memcpy(state.mask.data(), &record.mask, sizeof record.mask);
    auto websocket = std::make_unique<WebSocketState>();
    websocket->unframer = Unframer(state);
    websocket->rest = record.rest;
    return websocket;
}

std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(const ConnectionRecord& record) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(record.peer, error);
    if (error) return std::nullopt;
    return boost::asio::ip::tcp::endpoint(address, record.peer_port);
}

/// Returns false if that is not possible.
bool put_extras(const ConnectionRecord& record, std::unique_ptr<ConnectionExtras>& extras) {
    if (!record.is_proxied && !record.websocket && !record.tls) return true;
    extras = std::make_unique<ConnectionExtras>();
    extras->arrival.reset();
    if (record.is_proxied) {
        const auto peer = endpoint_of(record);
        if (!peer) return false;
        extras->proxied_peer = std::make_unique<const boost::asio::ip::tcp::endpoint>(*peer);
    }
    if (record.websocket) {
        if (record.websocket->rest.size() > Unframer::longest_rest) return false;
        extras->websocket = websocket_state(*record.websocket);
    }
    if (!record.tls) return true;
    if (record.tls->sealed > record.unsent.size()) return false;
    extras->small = SmallTls::adopt(*record.tls);
    return extras->small != nullptr;
}

}  // namespace

/// Has the peer ended the stream, as far as it was read? A plain socket keeps its end for the next
/// process.
bool Connection::has_ended() const {
    return (websocket() && extras_->websocket->end) || (small_tls() && small_tls()->has_ended());
}

void Connection::finish_input() {
    parked_ = false;
    if (reads()) consume({}, monotonic_now());
    end_websocket();
    if (small_tls() && small_tls()->has_ended() && state_ == State::open && !parked_) receive();
    settle();
    read_on();
}

Passing Connection::passing() const {
    if (!reads()) return Passing::ends;
    if (handshaking()) return Passing::handshake;
    if (state_ == State::login || !context_.owner.is_accepted(*this)) return Passing::login;
    if (tls()) return Passing::tls;
    const bool closes = websocket() && (extras_->websocket->end || extras_->websocket->close_sent);
    const bool has_failed = small_tls() && !small_tls()->may_pass();
    return closes || has_failed ? Passing::ends : Passing::passes;
}

ConnectionRecord Connection::describe(Millis rested) const {
    ConnectionRecord record{.listener = std::string(listener()),
                            .is_proxied = extras_ && extras_->proxied_peer,
                            .version = static_cast<std::uint8_t>(version_),
                            .silence = std::max<Millis>(rested - last_packet_, 0),
                            .limit = limit_,
                            .largest_packet = largest_packet_,
                            .owed = std::max<std::int64_t>(paid_until_ - rested * ns_of_ms, 0),
                            .is_parked = parked_,
                            .is_slowed = slowed_,
                            .notify_drained = notify_drained_};
    if (const auto peer = endpoint()) {
        record.peer = peer->address().to_string();
        record.peer_port = peer->port();
    }
    if (partial_) record.unfinished = *partial_;
    if (out_) record.unsent = out_->substr(sent_);
    if (websocket()) record.websocket = websocket_record(*extras_->websocket);
    if (small_tls()) record.tls = small_tls()->describe();
    return record;
}

bool Connection::adopt(Handoff& handoff, const ConnectionRecord& record) {
    handoff.version = static_cast<Version>(record.version);
    handoff.unread = record.unfinished;
    if (!put_extras(record, handoff.extras)) return false;
    // The old process can serve the client, so the upgrade must not go on without it.
    if (!take(handoff))
        throw std::system_error(errno, std::generic_category(), "can't watch a client's socket");
    const Millis now = monotonic_now();
    state_ = State::open;
    limit_ = record.limit;
    largest_packet_ = record.largest_packet;
    last_packet_ = now - record.silence;
    paid_until_ = now * ns_of_ms + record.owed;
    parked_ = record.is_parked;
    slowed_ = record.is_slowed;
    notify_drained_ = record.notify_drained;
    if (!record.unsent.empty()) outgoing() = record.unsent;
    unread_ = true;
    context_.wheel.schedule(*this, due_at(last_packet_));
    mark_dirty();
    read_on();
    return true;
}

/// Packets that a client has sent meanwhile are not late.
void Connection::wake(Millis rest) {
    last_packet_ += rest;
    if (scheduled()) context_.wheel.schedule(*this, deadline() + tick_after(rest));
    if (writing_)
        go_on_writing();
    else if (notify_drained_ || backlog() > 0)
        mark_dirty();
    if (!parked_) read_on();  // otherwise the queue of parked connections continues it
}

}  // namespace pulsegate
