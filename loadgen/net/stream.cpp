#include "loadgen/net/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "loadgen/net/tls.h"
#include "loadgen/net/websocket.h"

namespace pulsegate::load {

namespace {

/// The number of bytes of ciphertext that are read at a time. They lie at the end of the loop's
/// scratch memory, and the decrypted bytes at its front.
constexpr std::size_t cipher_room = 64 * 1024;
static_assert(Stream::most_kept + ServerUnframer::longest_rest + 2 * cipher_room <
              Loop::scratch_size);

/// The number of reads of one stream before other streams get their turn.
constexpr unsigned most_reads = 4;

constexpr std::uint32_t any_end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

/// Errors that may be gone at the next attempt.
bool passes(int error) { return error == EINTR || error == ENOBUFS || error == ENOMEM; }

EndedBy culprit(int error) {
    switch (error) {
        case EADDRNOTAVAIL:
        case EADDRINUSE:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case ENOBUFS:
        case ENOSPC:
        case EINVAL:
        case EAFNOSUPPORT:
        case EACCES:
        case EPERM: return EndedBy::local;
        default: return EndedBy::failure;
    }
}

void set(int socket, int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
}

int error_of(int socket) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

}  // namespace

std::uint64_t StreamHost::random() {  // splitmix64
    std::uint64_t value = random_ += 0x9E3779B97F4A7C15;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
    value = (value ^ value >> 27) * 0x94D049BB133111EB;
    return value ^ value >> 31;
}

/// The layers of a stream above TCP.
struct Stream::Layers {
    struct Upgrade {
        std::string request;
        WebSocketNonce nonce;
    };

    std::optional<TlsSession> tls;
    std::unique_ptr<Upgrade> upgrade;  // until it is answered
    bool websocket = false;
    std::uint8_t kept_frames = 0;  // bytes at the end of `kept_` that are no MQTT yet
    ServerUnframer unframer;
};
static_assert(ServerUnframer::longest_rest <= UINT8_MAX);

Stream::Stream(StreamHost& host, Owner& owner) : host_(host), owner_(owner) {}

Stream::~Stream() { close(); }

// -- connecting --

void Stream::connect(const Route& route) {
    close();
    quota_ = unlimited;
    before_send_ = after_send_ = tcp_connected_at_ = {};
    state_ = State::connecting;
    if (open_socket(route)) return add_layers(route);
    error_ = errno;
    socket_.reset();
    host_.loop.call_soon(*this);
}

bool Stream::open_socket(const Route& route) {
    socket_.reset(::socket(route.target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int number = socket_.get();
    if (number < 0) return false;
    set(number, IPPROTO_TCP, TCP_NODELAY, 1);
    if (route.receive_buffer > 0) set(number, SOL_SOCKET, SO_RCVBUF, route.receive_buffer);
    if (route.source) {
        // Choose the port at connect, when the whole four-tuple is known. Otherwise the kernel
        // wants a port that is free towards every server.
        set(number, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        if (::bind(number, route.source->get(), route.source->size()) < 0) return false;
    }
    if (::connect(number, route.target.get(), route.target.size()) < 0 && errno != EINPROGRESS)
        return false;
    return host_.loop.watch(number, *this);
}

void Stream::add_layers(const Route& route) {
    if (!route.tls && !route.websocket) return;
    layers_ = std::make_unique<Layers>();
    if (route.tls) layers_->tls.emplace(*route.tls, route.host);
    if (!route.websocket) return;
    layers_->websocket = true;
    layers_->upgrade = std::make_unique<Layers::Upgrade>();
    auto& nonce = layers_->upgrade->nonce;
    const std::array random{host_.random(), host_.random()};
    static_assert(sizeof random == sizeof nonce);
    std::memcpy(nonce.data(), random.data(), nonce.size());
    layers_->upgrade->request = upgrade_request(route.host, route.port, route.path, nonce);
}

void Stream::tcp_connected() {
    const Time now = Clock::now();
    if (const int error = error_of(socket_.get())) return end_by_error(error, now);
    tcp_connected_at_ = now;
    if (!secured()) return transport_ready(now);
    state_ = State::securing;
    decrypt({}, now);
}

void Stream::transport_ready(Time now) {
    if (!layers_ || !layers_->websocket) return opened(now);
    state_ = State::upgrading;
    send_secured(layers_->upgrade->request);
}

void Stream::opened(Time now) {
    state_ = State::open;
    owner_.stream_open(now);
}

bool Stream::secured() const { return layers_ && layers_->tls; }

// -- events --

void Stream::ready(std::uint32_t events) {
    if (!socket_) return end_by_error(error_, Clock::now());
    if (state_ == State::frozen) return watch_the_end(events);
    if (state_ == State::finishing) return finish_sending(events);
    if (state_ == State::connecting && events & (EPOLLOUT | any_end)) {
        const std::uint32_t connection = connection_;
        tcp_connected();
        if (connection != connection_ || !reading()) return;
    }
    if (events & EPOLLOUT) send_rest();
    if (quota_ == 0) return watch_the_end(events);
    if (events & (EPOLLIN | any_end)) read((events & any_end) != 0);
}

bool Stream::reading() const { return state_ != State::frozen && state_ != State::finishing; }

void Stream::watch_the_end(std::uint32_t events) {
    if (!(events & any_end)) return;
    const Time now = Clock::now();
    if (const int error = error_of(socket_.get())) return end_by_error(error, now);
    end(EndedBy::close, "closed by the server", now);
}

void Stream::finish_sending(std::uint32_t events) {
    if (events & any_end) return close();
    if (events & EPOLLOUT) send_rest();
}

// -- reading --

// Events are edge-triggered. If a read returns less than was asked for, the socket is empty, and
// the next bytes will be announced. This is not true of the end of the stream, which may have been
// announced together with the bytes.
void Stream::read(bool to_the_end) {
    const std::uint32_t connection = connection_;
    for (unsigned reads = 0; reads < most_reads; ++reads) {
        rest_waits_ = unsent_.size() > most_unsent && !to_the_end;
        if (rest_waits_) return;
        const auto bytes = room();
        const auto got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && would_block(errno)) return;
        const int error = got < 0 ? errno : error_;
        const Time now = Clock::now();
        if (got <= 0 && error != 0) return end_by_error(error, now);
        if (got == 0) return end(EndedBy::close, "closed by the server", now);

        const auto size = static_cast<std::size_t>(got);
        arrived(bytes.first(size), now);
        if (connection != connection_ || !reading()) return;
        if (size < bytes.size() && !to_the_end) return;
        if (quota_ == 0) break;
    }
    host_.loop.announce_again(socket_.get(), *this);
}

// Where the next bytes from the socket go: after the kept bytes, unless they must be decrypted
// first.
std::span<std::uint8_t> Stream::room() const {
    const auto scratch = host_.loop.scratch();
    std::memcpy(scratch.data(), kept_.data(), kept_.size());
    const auto free = secured() ? scratch.last(cipher_room) : scratch.subspan(kept_.size());
    return free.first(std::min<std::size_t>(free.size(), quota_));
}

void Stream::arrived(Bytes bytes, Time now) {
    host_.traffic.bytes_received += bytes.size();
    if (quota_ != unlimited) quota_ -= static_cast<std::uint32_t>(bytes.size());
    if (secured()) return decrypt(bytes, now);
    take(kept_.size() + bytes.size(), now);
}

void Stream::decrypt(Bytes cipher, Time now) {
    const auto scratch = host_.loop.scratch();
    const auto plain = scratch.subspan(kept_.size(), scratch.size() - cipher_room - kept_.size());
    host_.cipher.clear();
    const auto received = layers_->tls->receive(cipher, plain, host_.cipher);
    transmit(host_.cipher);

    const std::uint32_t connection = connection_;
    if (received.state == TlsSession::State::failed)
        return end(EndedBy::failure, "TLS: " + received.cause, now);
    if (received.state == TlsSession::State::handshaking) return;
    if (state_ == State::securing) transport_ready(now);
    if (connection != connection_ || !reading()) return;
    if (received.size > 0) take(kept_.size() + received.size, now);
    if (connection != connection_ || !reading()) return;
    if (received.state == TlsSession::State::closed)
        end(EndedBy::close, "closed by the server", now);
}

// Takes the first `size` bytes of the scratch memory: the kept bytes and the new ones.
void Stream::take(std::size_t size, Time now) {
    if (state_ == State::upgrading) return upgrade(size, now);
    if (layers_ && layers_->websocket)
        return unframe(kept_.size() - layers_->kept_frames, size, now);
    deliver(size, {}, now);
}

void Stream::upgrade(std::size_t size, Time now) {
    const auto bytes = host_.loop.scratch().first(size);
    const UpgradeAnswer answer = read_upgrade_answer(as_text(bytes), layers_->upgrade->nonce);
    switch (answer.status) {
        case UpgradeAnswer::Status::incomplete: return keep(bytes, {});
        case UpgradeAnswer::Status::refused: return end(EndedBy::refusal, answer.cause, now);
        case UpgradeAnswer::Status::bad: return end(EndedBy::violation, answer.cause, now);
        case UpgradeAnswer::Status::accepted: break;
    }
    layers_->upgrade.reset();
    keep({}, bytes.subspan(answer.size));  // in `opened`, the owner may send, but not read
    const std::uint32_t connection = connection_;
    opened(now);
    if (connection != connection_ || !reading()) return;
    std::memcpy(bytes.data(), kept_.data(), kept_.size());
    unframe(0, kept_.size(), now);
}

// Of the `size` bytes, the first `plain` have been taken out of their frames.
void Stream::unframe(std::size_t plain, std::size_t size, Time now) {
    auto frames = host_.loop.scratch().first(size).subspan(plain);
    for (;;) {
        const Unframed part = layers_->unframer.next(frames, host_.loop.scratch().data() + plain);
        plain += part.payload;
        frames = frames.subspan(part.consumed);
        switch (part.event) {
            case Unframed::Event::none: deliver(plain, frames, now); return;
            case Unframed::Event::pong: break;
            case Unframed::Event::ping: send_frame(Opcode::pong, as_text(part.body)); break;
            case Unframed::Event::close:
            case Unframed::Event::bad: return end_websocket(plain, part, now);
        }
    }
}

void Stream::end_websocket(std::size_t plain, const Unframed& last, Time now) {
    const bool closed = last.event == Unframed::Event::close;
    std::string cause = closed ? "WebSocket closed by the server, code " +
                                     std::to_string(static_cast<unsigned>(last.code))
                               : last.cause;
    if (!last.body.empty()) cause.append(": ").append(as_text(last.body));
    if (plain > 0 && !deliver(plain, {}, now)) return;
    end(closed ? EndedBy::close : EndedBy::violation, cause, now);
}

// False if the stream is not open any more.
bool Stream::deliver(std::size_t size, Bytes frames, Time now) {
    const Bytes bytes = host_.loop.scratch().first(size);
    const std::uint32_t connection = connection_;
    const std::size_t done = size > 0 ? owner_.stream_bytes(bytes, now) : 0;
    if (connection != connection_ || state_ != State::open) return false;
    keep(bytes.subspan(done), frames);
    return true;
}

void Stream::keep(Bytes plain, Bytes frames) {
    assert(plain.size() <= most_kept);
    if (layers_) layers_->kept_frames = static_cast<std::uint8_t>(frames.size());
    if (plain.empty() && frames.empty() && kept_.empty()) return;
    kept_ = std::string(as_text(plain));
    kept_ += as_text(frames);
}

void Stream::read_at_most(std::uint32_t bytes) {
    quota_ = bytes;
    if (socket_) host_.loop.announce_again(socket_.get(), *this);
}

// -- sending --

void Stream::send(std::string_view bytes) {
    assert(state_ == State::open);
    if (!layers_) return transmit(bytes);
    if (layers_->websocket) return send_frame(Opcode::binary, bytes);
    send_secured(bytes);
}

void Stream::send_frame(Opcode opcode, std::string_view payload) {
    host_.frame.clear();
    append_frame(host_.frame, opcode, payload, static_cast<std::uint32_t>(host_.random()));
    send_secured(host_.frame);
}

void Stream::send_secured(std::string_view bytes) {
    if (!secured()) return transmit(bytes);
    host_.cipher.clear();
    layers_->tls->send(bytes, host_.cipher);
    transmit(host_.cipher);
}

void Stream::transmit(std::string_view bytes) {
    if (bytes.empty() || error_ != 0) return;
    if (unsent_.empty()) bytes.remove_prefix(push(bytes));
    if (!bytes.empty()) unsent_ += bytes;
}

void Stream::send_rest() {
    if (unsent_.empty()) return;
    const std::size_t sent = push(unsent_);
    if (sent == unsent_.size()) {
        unsent_ = std::string();
        if (state_ == State::finishing) ::shutdown(socket_.get(), SHUT_WR);
    } else {
        unsent_.erase(0, sent);
    }
    if (rest_waits_ && unsent_.size() <= most_unsent)
        host_.loop.announce_again(socket_.get(), *this);
}

// Returns how many bytes the socket accepted. An error is reported by a later event, after the
// bytes that the server may have sent before it, because they may give the reason.
std::size_t Stream::push(std::string_view bytes) {
    const Time before = Clock::now();
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
        before_send_ = before;
        after_send_ = Clock::now();
        host_.traffic.bytes_sent += static_cast<std::size_t>(sent);
        return static_cast<std::size_t>(sent);
    }
    if (would_block(errno)) return 0;
    if (!passes(errno)) error_ = errno;
    host_.loop.announce_again(socket_.get(), *this);
    return 0;
}

// -- ending --

void Stream::finish() {
    if (state_ != State::open) return close();
    if (layers_ && layers_->websocket) send_frame(Opcode::close, "\x03\xE8");  // 1000: normal
    if (secured()) {
        host_.cipher.clear();
        layers_->tls->finish(host_.cipher);
        transmit(host_.cipher);
    }
    layers_.reset();
    kept_ = std::string();
    state_ = State::finishing;
    if (unsent_.empty()) ::shutdown(socket_.get(), SHUT_WR);
    host_.loop.announce_again(socket_.get(), *this);  // the end may have been announced before
}

void Stream::freeze() {
    if (!socket_) return close();
    layers_.reset();
    kept_ = unsent_ = std::string();
    state_ = State::frozen;
    host_.loop.announce_again(socket_.get(), *this);
}

void Stream::leave_half_open() {
    if (socket_) host_.half_open.take(std::move(socket_), *this);
    close();
}

void Stream::reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    if (socket_) setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
}

void Stream::close() {
    ++connection_;
    if (state_ == State::closed) return;
    host_.loop.forget(*this);
    socket_.reset();
    layers_.reset();
    kept_ = unsent_ = std::string();
    error_ = 0;
    rest_waits_ = false;
    state_ = State::closed;
}

void Stream::end_by_error(int error, Time now) {
    end(culprit(error), std::generic_category().message(error), now);
}

void Stream::end(EndedBy by, const std::string& cause, Time now) {
    close();
    owner_.stream_ended(by, cause, now);
}

}  // namespace pulsegate::load
