#include "loadgen/lab/control_link.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace pulsegate::load {

ControlLink::ControlLink(Descriptor socket, std::uint32_t largest)
    : socket_(std::move(socket)), in_(largest) {
    ::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

void ControlLink::send(FrameKind kind, std::string_view body) {
    if (sent_ > 0 && sent_ == out_.size()) {
        out_.clear();
        sent_ = 0;
    }
    append_frame(out_, kind, body);
    if (!write()) gone_ = true;
}

bool ControlLink::move() {
    if (gone_ || !write() || !read()) gone_ = true;
    return !gone_ && !in_.broken();
}

bool ControlLink::read() {
    std::array<std::uint8_t, 65'536> bytes;
    while (!in_.full()) {
        const auto size = ::recv(fd(), bytes.data(), bytes.size(), 0);
        if (size == 0) return false;
        if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        in_.add({bytes.data(), static_cast<std::size_t>(size)});
    }
    return true;
}

bool ControlLink::write() {
    while (wants_to_write()) {
        const auto size = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
        if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        sent_ += static_cast<std::size_t>(size);
    }
    return true;
}

}  // namespace pulsegate::load
