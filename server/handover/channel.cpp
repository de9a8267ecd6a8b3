#include "server/handover/channel.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/files/socket_pair.h"
#include "server/start/service_manager.h"

namespace pulsegate {

namespace {

/// The header before each message.
struct MessageHeader {
    std::uint32_t step;
    std::uint32_t has_descriptor;
    std::uint64_t size;
};

/// The maximum size of a message. A client's state includes the queue of a session that is not
/// stored; no real one is larger.
constexpr std::uint64_t largest_message = 1ull << 30;

[[noreturn]] void fail(const char* what) {
    throw HandoverError(fmt::format("{}: {}", what, std::strerror(errno)));
}

[[noreturn]] void lost_descriptor() {
    throw HandoverError("no more files can be opened: a descriptor was lost on its way");
}

using Control = std::array<char, CMSG_SPACE(sizeof(int))>;

void attach(msghdr& message, Control& control, int descriptor) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
}

UniqueFd attached(msghdr& message) {
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return {};
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    return UniqueFd(descriptor);
}

}  // namespace

std::pair<HandoverChannel, UniqueFd> HandoverChannel::make_pair() {
    auto [ours, theirs] = socket_pair();
    if (!ours) fail("socketpair");
    return {HandoverChannel(std::move(ours)), std::move(theirs)};
}

void HandoverChannel::wait(short events, Deadline deadline) const {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        pollfd event{.fd = socket_.get(), .events = events, .revents = 0};
        const int ready =
            ::poll(&event, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
        if (ready > 0) return;
        service::tell_alive();  // the main thread can't do it while it waits here
        if (ready < 0 && errno != EINTR) fail("poll");
        if (left.count() <= 0) throw HandoverLate("the other process does not answer in time");
    }
}

void HandoverChannel::send(HandoverStep step, std::string_view body, Deadline deadline,
                           int descriptor) {
    MessageHeader header{.step = static_cast<std::uint32_t>(step),
                         .has_descriptor = descriptor >= 0,
                         .size = body.size()};
    std::array<iovec, 2> parts{
        iovec{.iov_base = &header, .iov_len = sizeof header},
        iovec{.iov_base = const_cast<char*>(body.data()), .iov_len = body.size()}};
    Control control{};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (descriptor >= 0) attach(message, control, descriptor);
    ssize_t sent = -1;
    while ((sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL)) < 0) {
        if (errno == EPIPE || errno == ECONNRESET) throw OtherEnded("the other process has ended");
        if (errno != EAGAIN && errno != EINTR && errno != ETOOMANYREFS) fail("sendmsg");
        // Too many descriptors are under way. There is no event for the moment at which the other
        // process takes them.
        if (errno == ETOOMANYREFS) ::poll(nullptr, 0, 1);
        wait(POLLOUT, deadline);
    }
    const auto done = static_cast<std::size_t>(sent);
    if (done < sizeof header)
        send_all({reinterpret_cast<const char*>(&header) + done, sizeof header - done}, deadline);
    send_all(body.substr(done - std::min(done, sizeof header)), deadline);
}

void HandoverChannel::send_all(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET) throw OtherEnded("the other process has ended");
        if (errno != EAGAIN && errno != EINTR) fail("send");
        wait(POLLOUT, deadline);
    }
}

HandoverChannel::Message HandoverChannel::receive(Deadline deadline) {
    while (filled_ - taken_ < sizeof(MessageHeader)) receive_some(deadline);
    MessageHeader header{};
    take(reinterpret_cast<char*>(&header), sizeof header);
    if (header.size > largest_message) throw HandoverError("a message is too large");
    Message whole{.step = static_cast<HandoverStep>(header.step)};
    whole.body.resize(header.size);
    const std::size_t present = std::min(whole.body.size(), filled_ - taken_);
    take(whole.body.data(), present);
    receive_all(whole.body.data() + present, whole.body.size() - present, deadline);
    if (header.has_descriptor != 0) {
        if (descriptors_.empty()) lost_descriptor();
        whole.descriptor = std::move(descriptors_.front());
        descriptors_.pop_front();
    }
    return whole;
}

/// Moves bytes out of `received_`, and wipes them there.
void HandoverChannel::take(char* to, std::size_t size) {
    std::memcpy(to, received_.data() + taken_, size);
    OPENSSL_cleanse(received_.data() + taken_, size);
    taken_ += size;
}

/// Adds to `received_`. A call ends behind a part with a descriptor, so it brings one at most. The
/// descriptor arrives with the first byte of its message.
void HandoverChannel::receive_some(Deadline deadline) {
    constexpr std::size_t most = 65'536;
    received_.resize(most);
    const std::size_t kept = filled_ - std::exchange(taken_, 0);
    std::memmove(received_.data(), received_.data() + filled_ - kept, kept);
    OPENSSL_cleanse(received_.data() + kept, filled_ - kept);
    filled_ = kept;
    iovec part{.iov_base = received_.data() + filled_, .iov_len = received_.size() - filled_};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t received = -1;
    for (;;) {
        received = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
        if (received > 0) break;
        if (received == 0) throw OtherEnded("the other process has ended");
        if (errno == ECONNRESET) throw OtherEnded("the other process has ended");
        if (errno != EAGAIN && errno != EINTR) fail("recvmsg");
        wait(POLLIN, deadline);
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) lost_descriptor();
    filled_ += static_cast<std::size_t>(received);
    if (auto descriptor = attached(message)) descriptors_.push_back(std::move(descriptor));
}

/// Receives the rest of a large message, all at once.
void HandoverChannel::receive_all(char* to, std::size_t size, Deadline deadline) {
    while (size > 0) {
        const ssize_t received = ::recv(socket_.get(), to, size, 0);
        if (received > 0) {
            to += received;
            size -= static_cast<std::size_t>(received);
            continue;
        }
        if (received == 0 || errno == ECONNRESET) throw OtherEnded("the other process has ended");
        if (errno != EAGAIN && errno != EINTR) fail("recv");
        wait(POLLIN, deadline);
    }
}

HandoverChannel::Message HandoverChannel::expect(HandoverStep step, Deadline deadline) {
    Message message = receive(deadline);
    if (message.step == HandoverStep::refused) throw HandoverError(message.body);
    if (message.step != step)
        throw HandoverError(fmt::format("the other process sent step {} instead of {}",
                                        static_cast<unsigned>(message.step),
                                        static_cast<unsigned>(step)));
    return message;
}

}  // namespace pulsegate
