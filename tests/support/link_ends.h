#pragma once

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/cluster/link/frame_stream.h"
#include "server/cluster/link/link_socket.h"

// What tests of links between nodes are made of.

namespace pulsegate {

/// The ends of a connection over loopback.
inline std::pair<boost::asio::ip::tcp::socket, boost::asio::ip::tcp::socket> connected_pair(
    boost::asio::io_context& io) {
    boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
    boost::asio::ip::tcp::socket one(io);
    one.connect(acceptor.local_endpoint());
    return {std::move(one), acceptor.accept()};
}

inline std::shared_ptr<LinkSocket> link_socket(
    boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls = nullptr) {
    return std::make_shared<LinkSocket>(boost::beast::tcp_stream(std::move(socket)),
                                        std::move(tls));
}

inline std::string link_frame(std::string_view content) {
    std::string bytes;
    for (std::size_t i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(content.size() >> 8 * i));
    return bytes.append(content);
}

/// The contents of the frames.
inline std::vector<std::string> frame_contents(std::string_view frames) {
    std::vector<std::string> found;
    while (!frames.empty()) {
        REQUIRE(frames.size() >= 4);
        std::uint32_t size = 0;
        std::memcpy(&size, frames.data(), 4);
        REQUIRE(frames.size() >= 4 + size);
        found.emplace_back(frames.substr(4, size));
        frames.remove_prefix(4 + size);
    }
    return found;
}

/// What a node says that has received so many bytes.
inline std::string link_position(std::uint64_t received) {
    std::string bytes(4, '\0');
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(received >> 8 * i));
    return bytes;
}

/// A tick so long that it does not pass in a test.
inline constexpr FrameStream::Limits patient{.tick = std::chrono::minutes(1),
                                             .ticks_without_connection = 0};

/// A stream, and what it has told.
struct HeardStream {
    std::shared_ptr<FrameStream> stream;
    std::vector<std::string> received{};
    int deliveries = 0;
    std::optional<std::string> why{};
    bool is_full = false;
    int looks = 0;  ///< whether it is full
    std::vector<bool> changes{};

    explicit HeardStream(std::shared_ptr<LinkSocket> socket, FrameStream::Limits limits = patient)
        : stream(FrameStream::open(std::move(socket), {"peer#1", "birth", false, 3}, 7, limits)) {
        stream->begin({.received =
                           [this](std::string_view frames) {
                               CHECK_FALSE(why);
                               ++deliveries;
                               for (std::string& each : frame_contents(frames))
                                   received.push_back(std::move(each));
                           },
                       .ended =
                           [this](const std::string& cause) {
                               CHECK_FALSE(why);
                               why = cause;
                           },
                       .is_full =
                           [this] {
                               ++looks;
                               return is_full;
                           },
                       .changed = [this](bool is_connected) { changes.push_back(is_connected); }});
    }
};

template <class Condition>
void run_until(boost::asio::io_context& io, const Condition& is_met) {
    io.restart();  // it may have had nothing to do before
    while (!is_met()) REQUIRE(io.run_one() > 0);
}

/// A stream, and a socket that says what a test wants.
struct ToldStream {
    explicit ToldStream(boost::asio::io_context& io, FrameStream::Limits limits = patient)
        : ToldStream(connected_pair(io), limits) {}

    ToldStream(std::pair<boost::asio::ip::tcp::socket, boost::asio::ip::tcp::socket> ends,
               FrameStream::Limits limits)
        : ear(link_socket(std::move(ends.first)), limits), peer(std::move(ends.second)) {}

    void say(std::string_view bytes) { boost::asio::write(peer, boost::asio::buffer(bytes)); }

    HeardStream ear;
    boost::asio::ip::tcp::socket peer;
};

}  // namespace pulsegate
