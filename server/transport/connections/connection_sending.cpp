// The output of a connection, which is collected in its backlog and written as the socket accepts
// it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "protocol/decode.h"
#include "protocol/websocket.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// A backlog of this size is offered to the socket at once instead of at the end of the round.
constexpr std::size_t flush_early = 64 * 1024;

/// Bytes of pongs that may wait for a client that has sent no CONNECT: nobody's account has them.
constexpr std::size_t most_pongs_before_login = 1024;

}  // namespace

Buffer& Connection::outgoing() {
    if (!out_) {
        out_ = context_.spare_buffers.take();
        sent_ = 0;
    }
    return *out_;
}

void Connection::send(std::string_view packets) {
    if (!reads()) return;
    if (context_.tracer.is_on()) [[unlikely]]
        trace_sent(packets);
    Buffer& out = outgoing();
    if (websocket()) out.append(as_text(frame_header(Opcode::binary, packets.size()).bytes()));
    out.append(packets);
    sent_something();
}

void Connection::trace_sent(std::string_view packets) const {
    constexpr std::size_t longest_packet = 268'435'460;
    while (!packets.empty()) {
        const Frame frame = next_frame(as_bytes(packets), longest_packet, version_);
        if (frame.status != Frame::Status::complete) return;
        context_.owner.on_traced(*this, as_bytes(packets.substr(0, frame.size)), version_,
                                 Sender::server);
        packets.remove_prefix(frame.size);
    }
}

void Connection::mark_dirty() {
    if (dirty_ || context_.input.is_of(*this)) return;
    dirty_ = true;
    context_.flush_list.add(*this);
}

void Connection::sent_something() {
    mark_dirty();
    // Only bytes that the socket does not accept count against the budget.
    const auto early = std::min(flush_early, context_.settings.output_budget);
    if (backlog() > early && !writing_) flush();
    const auto& settings = context_.settings;
    if (backlog() > settings.output_budget)
        return cut(Limit::output_budget, "slow consumer: output budget exceeded");
    // No connection may have a larger backlog than what is left for all others. So connections with
    // large backlogs are cut, those with small ones stay, and the sum stays below its bound
    // (Choudhury and Hahne, 1998).
    if (counted_ == 0) return;
    const auto budget = settings.total_output_budget;
    const auto left = budget - std::min(context_.backlog.all(), budget);
    if (counted_ > left)
        cut(Limit::total_output_budget, "slow consumer: total output budget exceeded");
}

void Connection::send_pong(Bytes body) {
    append_pong(outgoing(), body);
    sent_something();
    if (state_ != State::login || backlog() <= most_pongs_before_login) return;
    if (!writing_) flush();
    if (state_ == State::login && backlog() > most_pongs_before_login)
        cut(Limit::output_budget, "slow consumer: it has not logged in and does not read");
}

void Connection::cut(Limit limit, const char* why) {
    context_.counters.count(limit);
    end({Cause::kicked, Reason::quota_exceeded, why});
}

void Connection::notify_when_drained() {
    notify_drained_ = true;
    mark_dirty();
}

void Connection::flush() {
    if (context_.rest == Rest::all) return;
    if (backlog() > 0) context_.rounds.guard();
    while (backlog() > 0) {
        const auto taken = send_now(socket_.get(), extras_.get(), *out_, sent_);
        if (taken < 0 && errno == EINTR) continue;
        if (taken < 0 && errno == EAGAIN) return wait_writable();
        if (taken < 0) {
            out_.reset();
            // The peer's last packets can still be read. There may be a DISCONNECT among them.
            if (errno == EPIPE || errno == ECONNRESET || errno == EPROTO) return;
            if (errno == EMSGSIZE)
                return end({Cause::kicked, Reason::packet_too_large,
                            "a message for it is too large for the link to its edge"});
            return end({Cause::connection_lost, Reason::success, "write error"});
        }
        context_.counters.bytes_out += static_cast<std::uint64_t>(taken);
        sent_ += static_cast<std::uint32_t>(taken);
    }
    if (out_) context_.spare_buffers.give_back(std::move(out_));
}

/// Adds the bytes that the socket has not accepted to the sum of all connections.
void Connection::count_backlog() {
    const auto now = static_cast<std::uint32_t>(backlog());
    context_.backlog.set(context_.backlog.get() - std::exchange(counted_, now) + now);
}

void Connection::wait_writable() {
    // Removes accepted bytes, but not at every write, because that would move the rest each time.
    if (out_ && sent_ > out_->size() / 2) {
        out_->erase(0, sent_);
        sent_ = 0;
    }
    if (writing_) return;
    writing_ = true;
    if (!channel()) context_.rounds.poller().want_to_write(socket_.get(), *this);
}

/// The socket accepts more.
void Connection::go_on_writing() {
    writing_ = false;
    const bool begins = handshaking() && reads();
    if (begins) {
        queued_ = false;
        proceed_handshake(false);
    }
    settle();
    if (begins) read_on();
}

}  // namespace pulsegate
