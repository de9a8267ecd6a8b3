#pragma once

#include <liburing.h>

#include <cstdint>
#include <cstdlib>

#include "tests/bench/peer.h"

namespace pulsegate::bench {

/// What `BareServer` does for logins and pings, with io_uring in the place of epoll: one request of
/// each socket's for all that it will ever receive, into buffers that all share, and in each turn
/// one system call for all answers and the wait. Linux 6.1 has all of it.
class BareUringServer {
public:
    explicit BareUringServer(std::uint16_t port)
        : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const int on = 1;
        setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(listener_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited
        const auto address = loopback(1, port);
        if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
            fail("the bare server's port is taken");
        listen(listener_, 4096);
        io_uring_params params{};
        params.flags =
            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
        params.cq_entries = 4096;
        if (io_uring_queue_init_params(512, &ring_, &params) < 0) fail("no io_uring");
        provide_buffers();
        accept_all();
    }

    [[noreturn]] void serve() {
        while (true) {
            io_uring_submit_and_wait(&ring_, 1);
            unsigned head = 0;
            unsigned count = 0;
            io_uring_cqe* done = nullptr;
            io_uring_for_each_cqe(&ring_, head, done) {
                take(*done);
                ++count;
            }
            io_uring_buf_ring_advance(buffers_, std::exchange(returned_, 0));
            io_uring_cq_advance(&ring_, count);
        }
    }

private:
    static constexpr unsigned buffer_count = 1024;
    static constexpr unsigned buffer_size = 256;
    static constexpr std::uint64_t accepting = ~std::uint64_t{0};
    static constexpr std::uint64_t sending = accepting - 1;

    void provide_buffers() {
        buffers_ = static_cast<io_uring_buf_ring*>(
            std::aligned_alloc(4096, buffer_count * sizeof(io_uring_buf)));
        io_uring_buf_reg reg{};
        reg.ring_addr = reinterpret_cast<std::uint64_t>(buffers_);
        reg.ring_entries = buffer_count;
        if (io_uring_register_buf_ring(&ring_, &reg, 0) < 0) fail("no buffer ring");
        io_uring_buf_ring_init(buffers_);
        for (unsigned i = 0; i < buffer_count; ++i) give_back(i);
        io_uring_buf_ring_advance(buffers_, std::exchange(returned_, 0));
    }

    char* buffer(unsigned number) { return &memory_[std::size_t{number} * buffer_size]; }

    void give_back(unsigned number) {
        io_uring_buf_ring_add(buffers_, buffer(number), buffer_size,
                              static_cast<unsigned short>(number),
                              static_cast<int>(buffer_count - 1), returned_++);
    }

    io_uring_sqe& request() {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        if (!sqe) {  // the queue is full
            io_uring_submit(&ring_);
            sqe = io_uring_get_sqe(&ring_);
        }
        return *sqe;
    }

    void accept_all() {
        io_uring_sqe& sqe = request();
        io_uring_prep_multishot_accept(&sqe, listener_, nullptr, nullptr, SOCK_CLOEXEC);
        io_uring_sqe_set_data64(&sqe, accepting);
    }

    void receive_all(int socket) {
        io_uring_sqe& sqe = request();
        io_uring_prep_recv_multishot(&sqe, socket, nullptr, 0, 0);
        sqe.flags |= IOSQE_BUFFER_SELECT;
        sqe.buf_group = 0;
        io_uring_sqe_set_data64(&sqe, static_cast<std::uint64_t>(socket));
    }

    void say(int socket, std::string_view bytes) {
        io_uring_sqe& sqe = request();
        io_uring_prep_send(&sqe, socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
        io_uring_sqe_set_data64(&sqe, sending);
    }

    void take(const io_uring_cqe& done) {
        if (done.user_data == sending) return;
        if (done.user_data == accepting) {
            if (done.res >= 0) receive_all(done.res);
            if (!(done.flags & IORING_CQE_F_MORE)) accept_all();
            return;
        }
        const int socket = static_cast<int>(done.user_data);
        if (done.flags & IORING_CQE_F_BUFFER) {
            const unsigned number = done.flags >> IORING_CQE_BUFFER_SHIFT;
            answer(socket, {buffer(number), static_cast<std::size_t>(done.res)});
            give_back(number);
        }
        if (done.flags & IORING_CQE_F_MORE) return;
        // The request has ended: for want of a buffer, or of room to say more.
        if (done.res > 0 || done.res == -ENOBUFS) return receive_all(socket);
        close(socket);
    }

    void answer(int socket, std::string_view packets) {
        while (packets.size() >= 2) {
            const auto length = 2u + static_cast<unsigned char>(packets[1]);
            const bool ping = (packets[0] & 0xF0) == 0xC0;
            say(socket,
                ping ? std::string_view("\xD0\x00", 2) : std::string_view("\x20\x02\x00\x00", 4));
            packets.remove_prefix(std::min<std::size_t>(length, packets.size()));
        }
    }

    int listener_;
    io_uring ring_{};
    io_uring_buf_ring* buffers_ = nullptr;
    int returned_ = 0;
    std::vector<char> memory_ = std::vector<char>(std::size_t{buffer_count} * buffer_size);
};

/// For `Peer`.
inline void serve_barely_with_uring(std::uint16_t port) { BareUringServer(port).serve(); }

}  // namespace pulsegate::bench
