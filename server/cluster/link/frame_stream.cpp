#include "server/cluster/link/frame_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/ssl/error.hpp>
#include <cstring>
#include <set>
#include <utility>

#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds pause_when_full{2};
constexpr int ticks_between_frames = 4;
constexpr int ticks_of_silence = 16;
constexpr std::size_t size_bytes = 4;
constexpr std::string_view empty_frame("\0\0\0\0", size_bytes);
constexpr std::size_t read_room = std::size_t{64} << 10;
/// A large frame must not keep its memory.
constexpr std::size_t most_idle_room = std::size_t{1} << 20;

std::size_t frame_size(const char* bytes) {
    std::size_t size = 0;
    for (std::size_t i = size_bytes; i-- > 0;)
        size = size << 8 | static_cast<unsigned char>(bytes[i]);
    return size;
}

void give_back(std::string& idle) {
    if (idle.capacity() > most_idle_room) idle = {};
}

std::string end_text(const error_code& error) {
    const bool is_close = error == asio::error::eof || error == asio::error::connection_reset ||
                          error == asio::error::broken_pipe ||
                          error == asio::ssl::error::stream_truncated;
    return is_close ? "the other node has closed the connection" : error.message();
}

}  // namespace

/// The streams of an io_context that have not ended. The destruction of an io_context begins with
/// `shutdown`, while it can still be used.
class FrameStream::Registry : public asio::execution_context::service {
public:
    using key_type = Registry;
    static inline asio::execution_context::id id;

    using asio::execution_context::service::service;

    std::set<std::shared_ptr<FrameStream>> streams{};

private:
    void shutdown() override {
        for (const auto& stream : std::exchange(streams, {})) stream->abandon();
    }
};

FrameStream::FrameStream(std::shared_ptr<LinkSocket> socket, LinkHello peer, Limits limits)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      limits_(limits),
      executor_(socket_->tcp().get_executor()),
      registry_(asio::use_service<Registry>(asio::query(executor_, asio::execution::context))),
      timer_(executor_),
      pause_(executor_),
      in_(std::move(socket_->unread())),
      filled_(in_.size()) {}

FrameStream::~FrameStream() = default;

std::shared_ptr<FrameStream> FrameStream::open(std::shared_ptr<LinkSocket> socket, LinkHello peer,
                                               Limits limits) {
    error_code ignored;  // the connection may have ended, which reading will tell
    socket->tcp().expires_never();
    socket->tcp().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    std::shared_ptr<FrameStream> stream(
        new FrameStream(std::move(socket), std::move(peer), limits));
    stream->registry_.streams.insert(stream);
    stream->await_tick();
    return stream;
}

void FrameStream::begin(Handlers handlers) {
    asio::post(executor_, [self = shared_from_this(), handlers = std::move(handlers)]() mutable {
        if (!self->socket_) return handlers.ended(self->why_);
        self->handlers_ = std::move(handlers);
        self->take(0);
        self->read();
    });
}

std::size_t FrameStream::send(std::string_view frames) {
    const std::lock_guard lock(mutex_);
    if (!is_open_ || frames.empty()) return waiting_;
    if (waiting_ + frames.size() > limits_.most_waiting) {
        end_soon(fmt::format("the other node reads too slowly: {} bytes wait for it",
                             waiting_ + frames.size()));
        return waiting_;
    }
    out_ += frames;
    waiting_ += frames.size();
    if (!std::exchange(is_writing_, true))
        asio::post(executor_, [self = shared_from_this()] { self->write(); });
    return waiting_;
}

void FrameStream::greet() { send(empty_frame); }

std::size_t FrameStream::waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
}

void FrameStream::end(std::string why) {
    const std::lock_guard lock(mutex_);
    if (is_open_) end_soon(std::move(why));
}

/// The mutex is locked.
void FrameStream::end_soon(std::string why) {
    is_open_ = false;
    asio::post(executor_, [self = shared_from_this(), why = std::move(why)] { self->finish(why); });
}

void FrameStream::finish(const std::string& why) {
    if (!socket_) return;
    {
        const std::lock_guard lock(mutex_);
        is_open_ = false;
        out_ = {};
        waiting_ = 0;
    }
    why_ = why;
    socket_->tcp().close();
    socket_.reset();  // the operations under way keep it until they are done
    timer_.reset();
    pause_.reset();
    registry_.streams.erase(shared_from_this());
    const Handlers handlers = std::exchange(handlers_, {});
    if (handlers.ended) handlers.ended(why_);
}

/// The io_context is being destroyed.
void FrameStream::abandon() {
    {
        const std::lock_guard lock(mutex_);
        is_open_ = false;
    }
    socket_.reset();
    timer_.reset();
    pause_.reset();
    handlers_ = {};
}

void FrameStream::await_tick() {
    timer_->expires_after(limits_.tick);
    timer_->async_wait([self = shared_from_this()](error_code) {
        if (self->socket_) self->tick();
    });
}

void FrameStream::tick() {
    if (++silent_ticks_ > ticks_of_silence) return finish("the other node is silent");
    if (++unsent_ticks_ >= ticks_between_frames && waiting() == 0) greet();
    await_tick();
}

/// The silence of a node that is not read means nothing.
void FrameStream::read_when_there_is_room() {
    silent_ticks_ = 0;
    pause_->expires_after(pause_when_full);
    pause_->async_wait([self = shared_from_this()](error_code) { self->read(); });
}

void FrameStream::read() {
    if (!socket_) return;
    if (handlers_.is_full && handlers_.is_full()) return read_when_there_is_room();
    if (filled_ == 0) give_back(in_);
    if (in_.size() - filled_ < read_room / 4) in_.resize(std::max(2 * in_.size(), read_room));
    socket_->read_some(
        asio::buffer(in_.data() + filled_, in_.size() - filled_),
        [self = shared_from_this(), socket = socket_](error_code error, std::size_t got) {
            if (!self->socket_) return;
            if (error) return self->finish(end_text(error));
            self->take(got);
            self->read();
        });
}

void FrameStream::take(std::size_t got) {
    filled_ += got;
    silent_ticks_ = 0;
    std::size_t begin = 0;  // of the frames that are delivered together
    std::size_t end = 0;
    while (filled_ - end >= size_bytes) {
        const std::size_t size = frame_size(in_.data() + end);
        if (size > largest_frame) {
            deliver(begin, end);
            return finish(fmt::format("the other node announces a frame of {} bytes", size));
        }
        if (size == 0) {
            deliver(begin, end);
            begin = end + size_bytes;
        } else if (filled_ - end - size_bytes < size) {
            break;
        }
        end += size_bytes + size;
    }
    deliver(begin, end);
    filled_ -= end;
    std::memmove(in_.data(), in_.data() + end, filled_);
}

void FrameStream::deliver(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    handlers_.received(std::string_view(in_).substr(begin, end - begin));
}

void FrameStream::write() {
    if (!socket_) return;
    if (gone_ == going_.size()) {
        const std::lock_guard lock(mutex_);
        is_writing_ = !out_.empty();
        going_.clear();
        give_back(going_);
        std::swap(going_, out_);
        gone_ = 0;
        if (!is_writing_) return;
    }
    socket_->write_some(asio::buffer(going_) + gone_, [self = shared_from_this(), socket = socket_](
                                                          error_code error, std::size_t sent) {
        if (!self->socket_) return;
        if (error) return self->finish(end_text(error));
        self->unsent_ticks_ = 0;
        self->gone_ += sent;
        {
            const std::lock_guard lock(self->mutex_);
            self->waiting_ -= sent;
        }
        self->write();
    });
}

}  // namespace pulsegate
