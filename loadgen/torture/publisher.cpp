#include "loadgen/torture/publisher.h"

#include <fmt/format.h>

#include <algorithm>

namespace pulsegate::torture {

namespace {

/// A 3.1.1 server does not state how many messages it takes at a time; some take 20.
constexpr std::size_t window = 16;
constexpr std::uint16_t values_of_publisher = 4;
constexpr std::uint32_t longest_delay = 15;  // seconds

double weight(const Options& options, Kind kind) {
    constexpr std::array weights{45, 40, 10, 5, 0};
    return options.kinds.count(kind) > 0 ? weights[static_cast<std::size_t>(kind)] : 0;
}

std::discrete_distribution<std::size_t> mix_of(const Options& options) {
    return {weight(options, Kind::qos_1), weight(options, Kind::qos_2),
            weight(options, Kind::delayed), weight(options, Kind::retained)};
}

}  // namespace

Publisher::Publisher(Scene& scene, std::uint16_t number, Version version)
    : Client(scene, fmt::format("torture-{}-publisher-{}", scene.run, number), version,
             Session::kept),
      number_(number),
      kinds_(mix_of(scene.options)) {}

void Publisher::begin() {
    const auto& kinds = scene().options.kinds;
    publishing_ =
        std::any_of(kinds.begin(), kinds.end(), [](Kind kind) { return kind != Kind::will; });
}

void Publisher::work(Time now) {
    const double rate = scene().options.rate / scene().options.publishers;
    if (publishing_ && online())
        due_ += rate * load::seconds(now - std::max(worked_at_, online_since()));
    worked_at_ = now;
    while (due_ >= 1) {
        due_ -= 1;
        if (publishing_ && online() && in_flight_.size() < window_) publish_one(now);
    }
}

void Publisher::publish_one(Time now) {
    const Kind kind = all_kinds[scene().dice.weighted(kinds_)];
    const std::uint16_t to = scene().dice.below(kind == Kind::retained ? values_of_publisher
                                                                       : scene().options.receivers);
    if (!may_send(kind, to)) return;
    if (kind != Kind::retained) scene().backlog.add(to);

    InFlight one;
    if (kind == Kind::delayed)
        one.delay = static_cast<std::uint8_t>(
            1 + scene().dice.below(std::clamp(scene().options.seconds / 2, 1u, longest_delay)));
    one.message = scene().book.send({kind, number_, to}, now, std::chrono::seconds(one.delay));
    do ++last_packet_id_;
    while (last_packet_id_ == 0 || find(last_packet_id_) != in_flight_.end());
    one.packet_id = last_packet_id_;
    transmit(in_flight_.emplace_back(one), false);
}

bool Publisher::may_send(Kind kind, std::uint16_t to) {
    // One value of a topic at a time: with two, the first could be repeated after the second.
    if (kind == Kind::retained)
        return std::none_of(in_flight_.begin(), in_flight_.end(), [&](const InFlight& one) {
            return one.message.stream == Stream{kind, number_, to};
        });
    if (!scene().backlog.has_room(to)) return false;
    if (kind != Kind::delayed) return true;
    // Only MQTT 5.0 can tell that the broker does not know delayed messages.
    const auto& delayed = scene().book.counts(Kind::delayed);
    return delayed.acknowledged > 0 || (version() == Version::v5_0 && delayed.refused == 0);
}

void Publisher::transmit(const InFlight& one, bool again) {
    const auto& stream = one.message.stream;
    if (one.released) return send(Pubrel{.packet_id = one.packet_id});
    auto topic = topic_of(stream, scene().run);
    if (stream.kind == Kind::delayed) topic = fmt::format("$delayed/{}/{}", one.delay, topic);
    const auto payload = payload_of(one.message);
    send(Publish{
        .dup = again,
        .qos = qos_of(stream.kind),
        .retain = stream.kind == Kind::retained,
        .topic = topic,
        .packet_id = one.packet_id,
        .payload = payload,
    });
}

void Publisher::on_login(const Connack& connack) {
    window_ = std::min<std::size_t>(
        window, connack.properties.number(Property::receive_maximum).value_or(window));
    if (connack.session_present)
        resume();
    else
        start_anew();
    has_session_ = true;
}

void Publisher::resume() {
    for (const InFlight& one : in_flight_) transmit(one, true);
}

/// The session is gone. What has QoS 1 is sent as if for the first time; with QoS 2 it could come a
/// second time, because nobody knows what became of the first.
void Publisher::start_anew() {
    if (has_session_) scene().book.lose_session(id(), online_since());
    std::erase_if(in_flight_, [this](const InFlight& one) {
        if (one.message.stream.kind != Kind::qos_2) return false;
        if (!one.released) scene().book.give_up(one.message);
        return true;
    });
    for (const InFlight& one : in_flight_) transmit(one, false);
}

void Publisher::on_packet(const Packet& packet) {
    std::visit(
        [this]<class Each>(const Each& each) {
            if constexpr (requires { this->take(each); }) take(each);
        },
        packet);
}

void Publisher::take(const Puback& ack) {
    const auto place = find(ack.packet_id);
    if (place == in_flight_.end() || place->message.stream.kind == Kind::qos_2) return;
    settle(place->message, ack.reason);
    in_flight_.erase(place);
}

void Publisher::take(const Pubrec& ack) {
    const auto place = find(ack.packet_id);
    if (place == in_flight_.end() || place->message.stream.kind != Kind::qos_2) return;
    if (!place->released) settle(place->message, ack.reason);
    if (is_error(ack.reason)) {
        in_flight_.erase(place);
        return;
    }
    place->released = true;
    transmit(*place, true);
}

void Publisher::take(const Pubcomp& ack) {
    const auto place = find(ack.packet_id);
    if (place != in_flight_.end() && place->released) in_flight_.erase(place);
}

Publisher::Place Publisher::find(std::uint16_t packet_id) {
    return std::find_if(in_flight_.begin(), in_flight_.end(),
                        [&](const InFlight& one) { return one.packet_id == packet_id; });
}

void Publisher::settle(const Message& message, Reason reason) {
    if (!is_error(reason)) return scene().book.acknowledge(message, load::Clock::now());
    scene().book.refuse(message);
    if (message.stream.kind != Kind::retained) scene().backlog.remove(message.stream.to);
}

}  // namespace pulsegate::torture
