#include "loadgen/client.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace pulsegate::load {

namespace {

std::string words(int error) {
    return boost::system::error_code(error, boost::system::system_category()).message();
}

}  // namespace

std::string Client::open(const asio::ip::tcp::endpoint& target,
                         std::optional<asio::ip::address> source) {
    start_anew();
    boost::system::error_code error;
    socket_.open(target.protocol(), error);
    if (!error) socket_.non_blocking(true, error);
    if (!error) socket_.set_option(asio::ip::tcp::no_delay(true), error);
    if (!error && source) {
        // Choose the port at connect, when the whole four-tuple is known. Otherwise the kernel
        // wants a port that is free towards every server.
        const int on = 1;
        setsockopt(socket_.native_handle(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        socket_.bind({*source, 0}, error);
    }
    return error ? error.message() : std::string();
}

void Client::start_anew() {
    refused = overdue_ping = false;
    disconnect_reason = Reason::success;
    overslept_until = pinged_at = before_send_ = after_send_ = {};
}

std::string Client::send(std::string_view packet) {
    if (!unsent_.empty()) {
        unsent_.append(packet);
        return {};
    }
    return transmit(packet);
}

std::string Client::send_rest() {
    const std::string rest = std::move(unsent_);
    unsent_ = {};
    return transmit(rest);
}

std::string Client::transmit(std::string_view bytes) {
    const Time before = Clock::now();
    const auto sent =
        ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return words(errno);
    if (sent > 0) {
        before_send_ = before;
        after_send_ = Clock::now();
    }
    unsent_ = bytes.substr(sent < 0 ? 0 : static_cast<std::size_t>(sent));
    return {};
}

std::string Client::read(std::span<std::uint8_t> buffer, std::size_t& size) {
    std::memcpy(buffer.data(), partial_.data(), partial_.size());
    const auto free = buffer.subspan(partial_.size());
    const auto got = ::recv(socket_.native_handle(), free.data(), free.size(), MSG_DONTWAIT);
    if (got == 0) return "closed by the server";
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return words(errno);
    size = partial_.size() + (got < 0 ? 0 : static_cast<std::size_t>(got));
    return {};
}

void Client::keep(Bytes partial) {
    if (partial.empty() && partial_.capacity() > 1000) {
        partial_ = {};
    } else {
        partial_ = as_text(partial);
    }
}

void Client::vanish() {
    boost::system::error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    close();
}

void Client::close() {
    stage = Stage::gone;
    ++generation_;
    boost::system::error_code ignored;
    socket_.close(ignored);
    unsent_ = {};
    partial_ = {};
}

}  // namespace pulsegate::load
