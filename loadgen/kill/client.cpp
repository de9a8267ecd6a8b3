#include "loadgen/kill/client.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>

#include "protocol/decode.h"

namespace pulsegate::kill {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t largest_packet = 65'536;
constexpr auto login_patience = 10s;
constexpr std::uint32_t session_expiry = 86'400;

}  // namespace

Client::Client(Scene& scene, std::string id, Version version, Session session,
               std::chrono::seconds keepalive)
    : scene_(scene),
      id_(std::move(id)),
      version_(version),
      session_(session),
      keepalive_(keepalive),
      socket_(scene.io.get_executor()) {}

void Client::tick(Time now) {
    if (stage_ == Stage::offline && wanted_ && now >= retry_at_) connect(now);
    if ((stage_ == Stage::connecting || stage_ == Stage::logging_in) && now >= give_up_at_)
        end_connection(Ending::close);
    work(now);
    // The PINGREQ comes after the work, because a DISCONNECT could not be sent while a PINGREQ is
    // being written.
    if (online() && now >= last_write_ + keepalive_ / 4) send(Pingreq{});
}

void Client::connect(Time now) {
    stage_ = Stage::connecting;
    give_up_at_ = now + login_patience;
    received_.clear();
    const auto places = scene_.options.places();
    const auto place = places > 1 ? scene_.dice.below(places) : std::uint16_t{};
    socket_.async_connect(scene_.options.broker_at(place),
                          [this, place, generation = generation_](auto error) {
                              if (generation != generation_) return;
                              if (error) return end_connection(Ending::close);
                              scene_.place_of[id_] = place;
                              boost::system::error_code ignored;
                              socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
                              log_in();
                              read();
                          });
}

void Client::log_in() {
    stage_ = Stage::logging_in;
    Connect connect;
    connect.version = version_;
    connect.clean_start = session_ == Session::clean;
    connect.keepalive = static_cast<std::uint16_t>(
        std::chrono::duration_cast<std::chrono::seconds>(keepalive_).count());
    connect.client_id = id_;
    PropertyList properties;
    if (session_ == Session::kept)
        properties.add(Property::session_expiry_interval, session_expiry);
    if (version_ == Version::v5_0) connect.properties = properties.view();
    const auto last_will = will();
    PropertyList will_properties;
    if (last_will) {
        if (last_will->delay > 0)
            will_properties.add(Property::will_delay_interval, last_will->delay);
        connect.will = Will{.topic = last_will->topic,
                            .payload = last_will->payload,
                            .qos = QoS::exactly_once,
                            .properties = will_properties.view()};
    }
    scene_.presence.change(id_, std::nullopt, load::Clock::now(), limit());
    send(connect);
}

void Client::end_connection(Ending ending) {
    if (stage_ == Stage::offline) return;
    const bool was_online = online();
    scene_.presence.change(id_, false, load::Clock::now(), limit());
    boost::system::error_code ignored;
    if (ending == Ending::disconnect && online()) {
        // Packets that wait are not sent any more. If a write is in progress, no DISCONNECT is
        // sent, because it would land inside another packet.
        Buffer goodbye;
        encode(Disconnect{}, version_, goodbye);
        if (!writing_) socket_.send(asio::buffer(goodbye), 0, ignored);
    }
    if (ending == Ending::reset) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
    ++generation_;
    stage_ = Stage::offline;
    writing_ = false;
    to_send_.clear();
    retry_at_ = load::Clock::now() + scene_.dice.between(50ms, 150ms);
    if (was_online) on_end();
}

void Client::write() {
    if (writing_ || to_send_.empty()) return;
    writing_ = true;
    being_sent_.swap(to_send_);
    to_send_.clear();
    last_write_ = load::Clock::now();
    asio::async_write(socket_, asio::buffer(being_sent_),
                      [this, generation = generation_](auto error, std::size_t) {
                          if (generation != generation_) return;
                          writing_ = false;
                          // After an error there may still be something to read, so reading ends
                          // the connection.
                          if (!error) write();
                      });
}

void Client::read() {
    socket_.async_read_some(asio::buffer(input_),
                            [this, generation = generation_](auto error, std::size_t size) {
                                if (generation != generation_) return;
                                received_.append(input_.data(), size);
                                if (!take_packets()) return;
                                if (error) return end_connection(Ending::close);
                                read();
                            });
}

/// False if the connection has been ended meanwhile.
bool Client::take_packets() {
    const auto generation = generation_;
    auto rest = as_bytes(received_);
    while (!rest.empty()) {
        const Frame frame = next_frame(rest, largest_packet, version_);
        if (frame.status == Frame::Status::incomplete) break;
        auto decoded = Decoded(frame.error);
        if (frame.status == Frame::Status::complete)
            decoded = decode(rest.first(frame.size), version_, Sender::server);
        if (const auto* error = std::get_if<DecodeError>(&decoded)) {
            scene_.book.note_fault(fmt::format("a bad packet to {}: {}", id_, error->cause),
                                   load::Clock::now());
            end_connection(Ending::close);
            return false;
        }
        take(std::get<Packet>(decoded));
        if (generation != generation_) return false;
        rest = rest.subspan(frame.size);
    }
    received_.erase(0, received_.size() - rest.size());
    return true;
}

void Client::take(const Packet& packet) {
    if (stage_ == Stage::online) return on_packet(packet);
    const auto* connack = std::get_if<Connack>(&packet);
    if (!connack || is_error(connack->reason)) {
        refusal_ = connack ? std::string(name(connack->reason)) : "no CONNACK";
        return end_connection(Ending::close);
    }
    stage_ = Stage::online;
    refusal_.clear();
    online_since_ = load::Clock::now();
    scene_.presence.change(id_, true, online_since_, limit());
    on_login(*connack);
}

}  // namespace pulsegate::kill
