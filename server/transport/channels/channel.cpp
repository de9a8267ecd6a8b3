#include "server/transport/channels/channel.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "protocol/decode.h"
#include "server/base/memory/free_memory.h"

namespace pulsegate {

namespace {

/// The length of the packets at the front of `bytes` that begin before `end`. Stops at a packet
/// that is too large.
std::size_t packets_before(std::string_view bytes, std::size_t end) {
    if (bytes.size() <= end) return bytes.size();
    std::size_t size = 0;
    while (size < end) {
        const Frame packet = next_frame(as_bytes(bytes.substr(size)), bytes.size());
        if (packet.status != Frame::Status::complete) return bytes.size();
        if (packet.size > Channel::largest_packet) break;
        size += packet.size;
    }
    return size;
}

}  // namespace

Channel::~Channel() { peer_.forget(name_, end_); }

ssize_t Channel::receive(void* buffer, std::size_t size) {
    if (input_.empty()) {
        if (has_ended_) return 0;
        errno = EAGAIN;
        return -1;
    }
    const std::size_t count = input_.copy(static_cast<char*>(buffer), size, read_);
    read_ += count;
    if (read_ == input_.size()) {
        free_memory(input_);  // at rest it owns no buffer
        read_ = 0;
    }
    taken_ += static_cast<std::uint32_t>(count);
    if (taken_ >= report && !has_lost_edge_) peer_.tell_taken(name_, std::exchange(taken_, 0));
    return static_cast<ssize_t>(count);
}

ssize_t Channel::send(std::string_view bytes) {
    if (has_lost_edge_ || has_ended_) return static_cast<ssize_t>(bytes.size());
    if (room_ <= 0 || !peer_.may_send(name_)) {
        errno = EAGAIN;
        return -1;
    }
    bytes = bytes.substr(0, packets_before(bytes, static_cast<std::size_t>(room_)));
    if (bytes.empty()) {
        errno = EMSGSIZE;
        return -1;
    }
    room_ -= static_cast<std::int64_t>(bytes.size());
    peer_.send(name_, bytes);
    has_sent_ = true;
    tell_terms();
    return static_cast<ssize_t>(bytes.size());
}

void Channel::send_last(std::string_view bytes) {
    if (!bytes.empty() && !has_lost_edge_ && !has_ended_) peer_.send(name_, bytes);
}

void Channel::tell_accepted(Millis limit, std::uint32_t largest_packet) {
    terms_ = {limit, largest_packet};
    tell_terms();
}

/// Tells the edge only after bytes were sent, that is, after the CONNACK: from then on, the edge
/// may send packets of its own, which must not come before it.
void Channel::tell_terms() {
    if (!terms_ || !has_sent_ || has_lost_edge_) return;
    peer_.tell_accepted(name_, terms_->limit, terms_->largest_packet);
    terms_.reset();
}

void Channel::ask_silence() {
    if (!has_lost_edge_ && !has_ended_) peer_.ask_silence(name_);
}

void Channel::tell(bool readable, bool writable) {
    if (polled_)
        polled_->on_ready({.readable = readable, .writable = writable, .more_behind = has_ended_});
}

void Channel::arrive(std::string_view bytes) {
    input_.erase(0, std::exchange(read_, 0));
    input_.append(bytes);
    tell(true, false);
}

void Channel::widen(std::uint32_t bytes) {
    room_ = std::min<std::int64_t>(room_ + bytes, window);
    tell(false, true);
}

void Channel::arrive_end(const Ending& ending) {
    has_ended_ = true;
    ending_ = ending;
    tell(true, true);
}

void Channel::lose_edge() {
    has_lost_edge_ = true;
    tell(false, true);
}

}  // namespace pulsegate
