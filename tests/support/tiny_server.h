#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "protocol/decode.h"
#include "protocol/encode.h"

namespace pulsegate {

namespace asio = boost::asio;

/// A server for a few clients that behaves correctly unless a test says otherwise. It runs on the
/// generator's event loop, so tests need no thread.
class TinyServer {
public:
    explicit TinyServer(asio::io_context& io)
        : acceptor_(io, {asio::ip::address_v4::loopback(), 0}) {
        accept();
    }

    asio::ip::tcp::endpoint address() const { return acceptor_.local_endpoint(); }

    std::function<Reason(asio::ip::tcp::socket&)> on_login = [](asio::ip::tcp::socket&) {
        return Reason::success;
    };
    int copies = 1;  ///< of each message
    std::function<void(asio::ip::tcp::socket&)> on_ping = [](asio::ip::tcp::socket&) {};

private:
    struct Guest {
        explicit Guest(asio::ip::tcp::socket connected) : socket(std::move(connected)) {}
        asio::ip::tcp::socket socket;
        std::array<std::uint8_t, 4096> buffer{};
        std::size_t filled = 0;
    };

    void accept() {
        acceptor_.async_accept(
            [this](boost::system::error_code error, asio::ip::tcp::socket socket) {
                if (error) return;
                read(guests_.emplace_back(std::move(socket)));
                accept();
            });
    }

    void read(Guest& guest) {
        const auto room = asio::buffer(guest.buffer) + guest.filled;
        guest.socket.async_read_some(room, [&](boost::system::error_code error, std::size_t got) {
            if (error) return;
            guest.filled += got;
            take_packets(guest);
            if (guest.socket.is_open()) read(guest);
        });
    }

    void take_packets(Guest& guest) {
        Bytes rest(guest.buffer.data(), guest.filled);
        for (;;) {
            const auto frame = next_frame(rest, 4096);
            if (frame.status != Frame::Status::complete) break;
            answer(guest, std::get<Packet>(
                              decode(rest.first(frame.size), Version::v3_1_1, Sender::client)));
            if (!guest.socket.is_open()) return;
            rest = rest.subspan(frame.size);
        }
        std::copy(rest.begin(), rest.end(), guest.buffer.begin());
        guest.filled = rest.size();
    }

    void answer(Guest& guest, const Packet& packet) {
        if (std::holds_alternative<Connect>(packet)) {
            const Reason reason = on_login(guest.socket);
            if (guest.socket.is_open()) send(guest, Connack{.reason = reason});
        }
        if (const auto* subscribe = std::get_if<Subscribe>(&packet)) {
            subscribers_[std::string(subscribe->filters.front().filter)] = &guest;
            Suback suback;
            suback.packet_id = subscribe->packet_id;
            suback.reasons = {Reason::success};
            send(guest, suback);
        }
        if (const auto* publish = std::get_if<Publish>(&packet))
            for (int copy = 0; copy < copies; ++copy)
                send(*subscribers_.at(std::string(publish->topic)), *publish);
        if (std::holds_alternative<Pingreq>(packet)) {
            send(guest, Pingresp{});
            on_ping(guest.socket);
        }
    }

    void send(Guest& guest, const Packet& packet) {
        Buffer out;
        encode(packet, Version::v3_1_1, out);
        boost::system::error_code ignored;
        asio::write(guest.socket, asio::buffer(out), ignored);
    }

    asio::ip::tcp::acceptor acceptor_;
    std::list<Guest> guests_;
    std::map<std::string, Guest*> subscribers_;
};

}  // namespace pulsegate
