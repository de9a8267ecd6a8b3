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

#include "server/base/log.h"
#include "server/base/memory/free_memory.h"
#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds pause_when_full{2};
constexpr int ticks_between_frames = 4;
constexpr int ticks_of_silence = 16;
constexpr std::size_t size_bytes = 4;
/// After this many received bytes the other node is told at once, so that it does not keep too
/// much.
constexpr std::uint64_t tell_after = std::uint64_t{256} << 10;
constexpr std::size_t read_room = std::size_t{64} << 10;
/// A buffer with more room than this is freed when it is empty, so that a large frame does not keep
/// its memory.
constexpr std::size_t most_idle_room = std::size_t{1} << 20;

std::uint64_t little_endian(const char* bytes, std::size_t size) {
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;)
        number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return number;
}

void give_back(std::string& idle) {
    if (idle.capacity() > most_idle_room) free_memory(idle);
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

FrameStream::FrameStream(std::shared_ptr<LinkSocket> socket, LinkHello peer, std::uint64_t name,
                         Limits limits)
    : peer_(std::move(peer)),
      name_(name),
      limits_(limits),
      executor_(socket->tcp().get_executor()),
      registry_(asio::use_service<Registry>(asio::query(executor_, asio::execution::context))),
      timer_(executor_),
      pause_(executor_) {
    use(std::move(socket));
}

FrameStream::~FrameStream() = default;

std::shared_ptr<FrameStream> FrameStream::open(std::shared_ptr<LinkSocket> socket, LinkHello peer,
                                               std::uint64_t name, Limits limits) {
    std::shared_ptr<FrameStream> stream(
        new FrameStream(std::move(socket), std::move(peer), name, limits));
    stream->registry_.streams.insert(stream);
    stream->await_tick();
    return stream;
}

std::shared_ptr<FrameStream> FrameStream::find(const asio::any_io_executor& executor,
                                               const std::string& incarnation, std::uint64_t name) {
    const auto& streams =
        asio::use_service<Registry>(asio::query(executor, asio::execution::context)).streams;
    const auto found = std::ranges::find_if(streams, [&](const auto& stream) {
        return stream->name_ == name && stream->peer_.incarnation == incarnation;
    });
    return found == streams.end() ? nullptr : *found;
}

std::optional<std::uint64_t> FrameStream::greeting(std::string_view bytes) {
    if (bytes.size() < greeting_bytes || little_endian(bytes.data(), size_bytes) != 0) return {};
    return little_endian(bytes.data() + size_bytes, sizeof(std::uint64_t));
}

void FrameStream::use(std::shared_ptr<LinkSocket> socket) {
    error_code ignored;  // reading will notice if the connection has ended
    socket->tcp().expires_never();
    socket->tcp().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    socket_ = std::move(socket);
    in_ = std::move(socket_->unread());
    filled_ = in_.size();
    silent_ticks_ = 0;
}

void FrameStream::begin(Handlers handlers) {
    asio::post(executor_, [self = shared_from_this(), handlers = std::move(handlers)]() mutable {
        if (self->has_ended_) return handlers.ended(self->why_);
        self->handlers_ = std::move(handlers);
        self->has_begun_ = true;
        if (!self->socket_ && self->handlers_.changed) self->handlers_.changed(false);
        self->take(0);
        self->read();
    });
}

bool FrameStream::resume(std::shared_ptr<LinkSocket> socket, std::uint64_t position) {
    if (has_ended_) return false;
    drop_connection();
    if (!kept_.resume(position)) {
        finish(fmt::format("the other node has received {} bytes, which can't be", position));
        return false;
    }
    note_progress();
    if (has_stalled()) {
        finish("what it is sent does not arrive on any connection");
        return false;
    }
    use(std::move(socket));
    {
        const std::lock_guard lock(mutex_);
        waiting_ = kept_.unwritten() + out_.size();
    }
    spdlog::info("link to {}: it has a new connection, and sends {} bytes again", peer_.incarnation,
                 kept_.unwritten());
    must_tell_ = true;
    write();
    if (handlers_.changed) handlers_.changed(true);
    if (!has_begun_) return true;
    take(0);
    read();
    return true;
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
    want_write();
    return waiting_;
}

/// The caller has locked the mutex.
void FrameStream::want_write() {
    if (!std::exchange(is_writing_, true))
        asio::post(executor_, [self = shared_from_this()] { self->write(); });
}

void FrameStream::greet() {
    must_tell_ = true;
    const std::lock_guard lock(mutex_);
    if (is_open_) want_write();
}

std::size_t FrameStream::waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
}

void FrameStream::end(std::string why) {
    const std::lock_guard lock(mutex_);
    if (is_open_) end_soon(std::move(why));
}

/// The caller has locked the mutex.
void FrameStream::end_soon(std::string why) {
    is_open_ = false;
    asio::post(executor_, [self = shared_from_this(), why = std::move(why)] { self->finish(why); });
}

/// True if connections have made no progress for too long. Small frames may pass and large ones
/// not, for example because of the network's MTU. Then each new connection is lost after a while,
/// and clients would wait for ever.
bool FrameStream::has_stalled() const {
    return stalled_ticks_.value_or(0) > limits_.ticks_without_connection;
}

void FrameStream::note_progress() {
    if (std::exchange(progress_, kept_.acknowledged()) != kept_.acknowledged())
        stalled_ticks_.reset();
}

/// Frames that were not received are sent again on the next connection.
void FrameStream::drop_connection() {
    if (socket_ && kept_.bytes() > 0 && !stalled_ticks_) stalled_ticks_ = 0;
    if (socket_) socket_->tcp().close();
    socket_.reset();  // unfinished operations keep the socket alive
    is_write_under_way_ = false;
    going_.clear();
    gone_ = 0;
    filled_ = 0;
    silent_ticks_ = 0;
    const std::lock_guard lock(mutex_);
    is_writing_ = true;
}

void FrameStream::lose_connection(const std::string& why) {
    if (limits_.ticks_without_connection == 0 || has_stalled()) return finish(why);
    drop_connection();
    why_ = why;
    spdlog::info("link to {}: its connection is lost: {}", peer_.incarnation, why);
    if (handlers_.changed) handlers_.changed(false);
    if (lost_) lost_();
}

void FrameStream::finish(const std::string& why) {
    if (std::exchange(has_ended_, true)) return;
    {
        const std::lock_guard lock(mutex_);
        is_open_ = false;
        free_memory(out_);
        waiting_ = 0;
    }
    drop_connection();
    why_ = why;
    kept_ = {};
    lost_ = nullptr;
    timer_.reset();
    pause_.reset();
    registry_.streams.erase(shared_from_this());
    const Handlers handlers = std::exchange(handlers_, {});
    if (handlers.ended) handlers.ended(why_);
}

/// Call it when the io_context is being destroyed.
void FrameStream::abandon() {
    {
        const std::lock_guard lock(mutex_);
        is_open_ = false;
    }
    has_ended_ = true;
    socket_.reset();
    timer_.reset();
    pause_.reset();
    lost_ = nullptr;
    handlers_ = {};
}

void FrameStream::await_tick() {
    timer_->expires_after(limits_.tick);
    timer_->async_wait([self = shared_from_this()](error_code) {
        if (!self->has_ended_) self->tick();
    });
}

void FrameStream::tick() {
    ticked_before_ = std::exchange(ticked_, boot_now());
    ++silent_ticks_;
    if (stalled_ticks_) ++*stalled_ticks_;
    if (!socket_ && silent_ticks_ > limits_.ticks_without_connection)
        finish(fmt::format("{}; there was no other connection in time", why_));
    else if (socket_ && silent_ticks_ > ticks_of_silence)
        lose_connection("the other node is silent");
    else if (socket_ && (received_ != told_ || ++unsent_ticks_ >= ticks_between_frames))
        greet();
    if (!has_ended_) await_tick();
}

/// Pauses before it reads again. A node from which nothing is read does not count as silent.
void FrameStream::read_when_there_is_room() {
    silent_ticks_ = 0;
    pause_->expires_after(pause_when_full);
    pause_->async_wait([self = shared_from_this(), socket = socket_](error_code) {
        if (self->socket_ == socket) self->read();
    });
}

void FrameStream::read() {
    if (!socket_) return;
    if (handlers_.is_full && handlers_.is_full()) return read_when_there_is_room();
    if (filled_ == 0) give_back(in_);
    if (in_.size() - filled_ < read_room / 4) in_.resize(std::max(2 * in_.size(), read_room));
    socket_->read_some(
        asio::buffer(in_.data() + filled_, in_.size() - filled_),
        [self = shared_from_this(), socket = socket_](error_code error, std::size_t got) {
            if (self->socket_ != socket) return;
            if (error) return self->lose_connection(end_text(error));
            self->take(got);
            self->read();
        });
}

void FrameStream::take(std::size_t got) {
    filled_ += got;
    silent_ticks_ = 0;
    if (got > 0) heard_ = ticked_before_;
    std::size_t begin = 0;  // begin of the frames that are delivered together
    std::size_t end = 0;
    while (filled_ - end >= size_bytes) {
        const char* const at = in_.data() + end;
        const auto size = static_cast<std::size_t>(little_endian(at, size_bytes));
        if (size > largest_frame) {
            deliver(begin, end);
            return finish(fmt::format("the other node announces a frame of {} bytes", size));
        }
        const std::size_t whole = size == 0 ? greeting_bytes : size_bytes + size;
        if (filled_ - end < whole) break;
        end += whole;
        if (size > 0) continue;
        deliver(begin, end - whole);
        begin = end;
        const std::uint64_t position = little_endian(at + size_bytes, sizeof(std::uint64_t));
        if (!kept_.acknowledge(position))
            return finish(
                fmt::format("the other node has received {} bytes, which can't be", position));
        note_progress();
    }
    deliver(begin, end);
    filled_ -= end;
    std::memmove(in_.data(), in_.data() + end, filled_);
    if (received_ - told_ >= tell_after) greet();
}

void FrameStream::deliver(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    received_ += end - begin;
    handlers_.received(std::string_view(in_).substr(begin, end - begin));
}

void FrameStream::write() {
    if (!socket_ || is_write_under_way_) return;
    if (gone_ == going_.size() && !fill()) return;
    is_write_under_way_ = true;
    socket_->write_some(asio::buffer(going_) + gone_, [self = shared_from_this(), socket = socket_](
                                                          error_code error, std::size_t sent) {
        if (self->socket_ != socket) return;
        self->is_write_under_way_ = false;
        if (error) return self->lose_connection(end_text(error));
        self->note_written(sent);
        self->write();
    });
}

/// Puts the next bytes to be written into `going_`. Returns false if there are none.
bool FrameStream::fill() {
    going_.clear();
    give_back(going_);
    gone_ = 0;
    if (must_tell_ || received_ != told_) {
        going_.append(size_bytes, '\0');
        for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i)
            going_.push_back(static_cast<char>(received_ >> 8 * i));
        told_ = received_;
        must_tell_ = false;
    }
    going_frames_ = going_.size();
    {
        const std::lock_guard lock(mutex_);
        if (!out_.empty()) kept_.add(std::exchange(out_, {}));
        is_writing_ = kept_.unwritten() > 0 || !going_.empty();
        if (!is_writing_) return false;
    }
    going_ += kept_.next();
    if (kept_.bytes() <= 2 * limits_.most_waiting) return true;
    finish(fmt::format("the other node has not acknowledged {} bytes", kept_.bytes()));
    return false;
}

void FrameStream::note_written(std::size_t bytes) {
    unsent_ticks_ = 0;
    const std::size_t before = std::max(gone_, going_frames_);
    gone_ += bytes;
    const std::lock_guard lock(mutex_);
    waiting_ -= std::max(gone_, going_frames_) - before;
}

}  // namespace pulsegate
