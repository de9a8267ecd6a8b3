#include "server/transport/tls/small_tls.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

namespace pulsegate {

namespace {

/// The maximum bytes of one read, besides the kept beginning of a record in front of them. Together
/// they fit into the shard's buffer.
constexpr std::size_t most_in_a_read = 32 * 1024;
/// The most bytes that are sealed at once.
constexpr std::size_t most_in_a_send = 64 * 1024;

/// Up to this many kept bytes are always copied, because a check would cost as much.
constexpr std::size_t copied_at_once = 256;

ssize_t send_bytes(int socket, std::string_view bytes) {
    return ::syscall(SYS_sendto, socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                     nullptr, 0);
}

/// A buffer for sealed records on their way to the socket.
Buffer& sealing_buffer() {
    thread_local Buffer buffer;
    buffer.clear();
    return buffer;
}

}  // namespace

SmallTls::SmallTls(TlsRecords records, std::string_view unopened) : records_(std::move(records)) {
    keep(as_bytes(unopened));
}

void SmallTls::keep(Bytes rest) {
    unopened_ = rest.empty() ? nullptr : std::make_unique<Buffer>(as_text(rest));
    has_more_ = has_record();
}

bool SmallTls::has_record() const {
    return unopened_ && unopened_->size() >= TlsRecords::needed(as_bytes(*unopened_));
}

ssize_t SmallTls::receive(int socket, std::uint8_t* buffer, std::size_t room) {
    assert(kept_size() <= room);
    records_.begin_call();
    if (records_.end() != TlsRecords::End::none) return tell_end();
    if (!has_record()) return read(socket, buffer, room);
    const std::size_t size = unopened_->copy(reinterpret_cast<char*>(buffer), room);
    const ssize_t opened = open(buffer, size);
    has_more_ = true;  // the socket was not read, and the poller does not report it again
    return opened;
}

/// Reads input behind the place for the kept beginning of a record. The beginning is copied there
/// only when the record is complete; otherwise a record that arrives byte by byte would be copied
/// each time.
ssize_t SmallTls::read(int socket, std::uint8_t* buffer, std::size_t room) {
    const std::size_t kept = kept_size();
    const std::size_t asked = std::min(room - kept, most_in_a_read);
    const ssize_t size =
        ::syscall(SYS_recvfrom, socket, buffer + kept, asked, MSG_DONTWAIT, nullptr, nullptr);
    has_more_ = false;
    if (size <= 0) return size;
    const auto filled = kept + static_cast<std::size_t>(size);
    if (kept > copied_at_once && filled < TlsRecords::needed(as_bytes(*unopened_))) {
        unopened_->append(reinterpret_cast<const char*>(buffer + kept),
                          static_cast<std::size_t>(size));
        errno = EINTR;
        return -1;
    }
    if (unopened_) unopened_->copy(reinterpret_cast<char*>(buffer), kept);
    const bool is_full = static_cast<std::size_t>(size) == asked;
    const ssize_t opened = open(buffer, filled);
    has_more_ = has_more_ || is_full;
    return opened;
}

ssize_t SmallTls::open(std::uint8_t* buffer, std::size_t size) {
    const auto opened = records_.open({buffer, size});
    const bool goes_on = records_.end() == TlsRecords::End::none;
    keep(goes_on ? Bytes(buffer, size).subspan(opened.consumed) : Bytes());
    if (opened.content > 0) {
        has_more_ = has_more_ || !goes_on;
        return static_cast<ssize_t>(opened.content);
    }
    if (!goes_on) return tell_end();
    errno = EINTR;
    return -1;
}

/// The value with which recv reports the end of a connection.
ssize_t SmallTls::tell_end() const {
    if (records_.end() == TlsRecords::End::closed) return 0;
    errno = EPROTO;
    return -1;
}

ssize_t SmallTls::send(int socket, Buffer& out, std::size_t sent) {
    const bool has_broken =
        records_.end() == TlsRecords::End::fault || records_.end() == TlsRecords::End::gone;
    if (cannot_send_ || has_broken) {
        errno = EPIPE;
        return -1;
    }
    if (sealed_ == 0) return seal_and_send(socket, out, sent);
    const ssize_t size = send_bytes(socket, std::string_view(out).substr(sent, sealed_));
    if (size < 0) return errno == EAGAIN || errno == EINTR ? -1 : fail_to_send(errno);
    sealed_ -= static_cast<std::uint32_t>(size);
    return size;
}

/// Sealed bytes have used up their record numbers. So exactly these bytes must be sent later, or
/// none at all.
ssize_t SmallTls::seal_and_send(int socket, Buffer& out, std::size_t sent) {
    const auto plain = std::string_view(out).substr(sent, most_in_a_send);
    Buffer& sealed = sealing_buffer();
    if (!records_.seal(plain, sealed)) return fail_to_send(EIO);
    const ssize_t size = send_bytes(socket, sealed);
    if (size == static_cast<ssize_t>(sealed.size())) return static_cast<ssize_t>(plain.size());
    if (size < 0 && errno != EAGAIN && errno != EINTR) return fail_to_send(errno);
    const auto rest =
        std::string_view(sealed).substr(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    sealed_ = static_cast<std::uint32_t>(rest.size());
    out.replace(sent, plain.size(), rest);
    errno = EAGAIN;
    return -1;
}

ssize_t SmallTls::fail_to_send(int error) {
    cannot_send_ = true;
    errno = error;
    return -1;
}

void SmallTls::end(int socket, std::string_view last_bytes) {
    if (cannot_send_ || sealed_ > 0) return;
    cannot_send_ = true;
    const auto end = records_.end();
    const bool hears = end == TlsRecords::End::none || end == TlsRecords::End::closed;
    Buffer& sealed = sealing_buffer();
    if (hears && !records_.seal(last_bytes, sealed)) return;
    if (!records_.seal_end(sealed) || sealed.empty()) return;
    send_bytes(socket, sealed);
}

}  // namespace pulsegate
