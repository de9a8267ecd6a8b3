#include "loadgen/kill/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pulsegate::kill {

namespace {

/// A 3.1.1 server does not state how many messages it takes at a time; some take 20.
constexpr std::size_t window = 16;
constexpr std::uint16_t values_of_publisher = 4;
constexpr std::uint32_t longest_delay = 15;  // seconds
constexpr std::uint32_t day = 86'400;

double weight(const Options& options, Kind kind) {
    constexpr std::array weights{22, 20, 20, 12, 2, 10, 9, 5, 0};
    static_assert(weights.size() == all_kinds.size());
    return options.kinds.count(kind) > 0 ? weights[static_cast<std::size_t>(kind)] : 0;
}

std::discrete_distribution<std::size_t> mix_of(const Options& options) {
    std::vector<double> weights;
    weights.reserve(all_kinds.size());
    for (const Kind kind : all_kinds) weights.push_back(weight(options, kind));
    return {weights.begin(), weights.end()};
}

/// The stream of each receiver: for a room, one stream for each member.
std::vector<Stream> copies_of(const Stream& stream, const ReceiverCounts& receivers) {
    if (stream.kind != Kind::room) return {stream};
    std::vector<Stream> copies;
    for (std::uint16_t member = stream.to; member < receivers.all_receivers(); member += rooms)
        copies.push_back({stream.kind, stream.from, member});
    return copies;
}

}  // namespace

Publisher::Publisher(RunContext& context, std::uint16_t number, Version version)
    : Client(context, client_name("publisher", number, context.run), version, Session::kept),
      number_(number),
      kinds_(mix_of(context.options)) {}

void Publisher::begin() {
    const auto& kinds = context().options.kinds;
    publishing_ =
        std::any_of(kinds.begin(), kinds.end(), [](Kind kind) { return kind != Kind::will; });
}

void Publisher::work(Time now) {
    const double rate = context().options.rate / context().options.publishers;
    if (publishing_ && !paused_ && online())
        due_ += rate * load::seconds(now - std::max(worked_at_, online_since()));
    worked_at_ = now;
    // More messages would wait in the client. After the loss of a session they would be sent before
    // those that are sent again, and so out of order.
    const auto most = std::min<std::size_t>(window, mqtt().receive_maximum());
    while (due_ >= 1) {
        due_ -= 1;
        if (publishing_ && online() && in_flight_.size() < most) publish_one(now);
    }
}

void Publisher::publish_one(Time now) {
    const Kind kind = all_kinds[context().random.weighted(kinds_)];
    const Stream stream{kind, number_, choose_receiver(kind)};
    if (!may_send(stream)) return;

    InFlight one;
    if (kind == Kind::delayed)
        one.delay = 1 + context().random.below(
                            std::clamp(context().options.seconds / 2, 1u, longest_delay));
    one.lifetime = choose_lifetime(kind);
    for (const Stream& copy : copies_of(stream, context().receivers)) {
        one.message = context().messages.send(copy, now,
                                              {.delay = std::chrono::seconds(one.delay),
                                               .lifetime = std::chrono::seconds(one.lifetime)});
        if (kind != Kind::retained) context().backlog.add(copy.to);
    }
    one.message.stream = stream;  // all copies have the same number
    in_flight_.emplace(++last_tag_, one);
    transmit(last_tag_);
}

std::uint16_t Publisher::choose_receiver(Kind kind) {
    const auto& receivers = context().receivers;
    auto& random = context().random;
    switch (kind) {
        case Kind::retained: return random.below(values_of_publisher);
        case Kind::inbox: return random.below(receivers.all_receivers());
        case Kind::room: return random.below(rooms);
        case Kind::shared: return receivers.all_receivers() + random.below(receivers.groups);
        default: return random.below(receivers.kept);
    }
}

/// Some messages of a conversation expire after a few seconds, and some after a day. Only MQTT 5.0
/// has an expiry.
std::uint32_t Publisher::choose_lifetime(Kind kind) {
    if (kind != Kind::mixed || version() != Version::v5_0) return 0;
    const auto chance = context().random.below(8);
    if (chance == 0) return 1 + context().random.below(4);
    return chance == 1 ? day : 0;
}

bool Publisher::may_send(const Stream& stream) {
    // Only one value of a topic is in flight at a time. Otherwise the first of two could be
    // repeated after the second.
    if (stream.kind == Kind::retained)
        return std::none_of(in_flight_.begin(), in_flight_.end(),
                            [&](const auto& one) { return one.second.message.stream == stream; });
    for (const Stream& copy : copies_of(stream, context().receivers))
        if (!context().backlog.has_room(copy.to)) return false;
    if (stream.kind != Kind::delayed) return true;
    // Only MQTT 5.0 lets the broker refuse delayed messages. So a 3.1.1 publisher waits until one
    // was acknowledged.
    const auto& delayed = context().messages.counts(Kind::delayed);
    return delayed.acknowledged > 0 || (version() == Version::v5_0 && delayed.refused == 0);
}

void Publisher::transmit(std::uint64_t tag) {
    const InFlight& one = in_flight_.at(tag);
    const auto& stream = one.message.stream;
    auto topic = topic_of(stream, context().run);
    if (stream.kind == Kind::delayed) topic = fmt::format("$delayed/{}/{}", one.delay, topic);
    const auto payload = payload_of(one.message, context().run);
    PropertyList properties;
    if (one.lifetime > 0) properties.add(Property::message_expiry_interval, one.lifetime);
    mqtt().publish({.qos = qos_of(one.message),
                    .retain = stream.kind == Kind::retained,
                    .topic = topic,
                    .properties = properties.view(),
                    .payload = payload},
                   tag);
}

/// The client has sent the messages in flight again if the session is still there.
void Publisher::on_login(bool session_present) {
    if (has_session_ && !session_present) context().messages.lose_session(id(), online_since());
    has_session_ = true;
    for (const auto& [tag, one] : in_flight_)
        for (const Stream& copy : copies_of(one.message.stream, context().receivers))
            context().messages.send_again({copy, one.message.number});
    for (const std::uint64_t tag : std::exchange(to_transmit_, {})) transmit(tag);
}

/// The session is gone. Messages at QoS 1 are sent as new ones. Those at QoS 2 are not sent again:
/// they could arrive twice, because nobody knows whether the broker has them.
void Publisher::in_doubt(load::MqttClient&, std::uint64_t tag) {
    const InFlight& one = in_flight_.at(tag);
    if (qos_of(one.message) != QoS::exactly_once) return to_transmit_.push_back(tag);
    if (!one.is_settled)
        for (const Stream& copy : copies_of(one.message.stream, context().receivers))
            context().messages.give_up({copy, one.message.number});
    in_flight_.erase(tag);
}

void Publisher::taken_over(load::MqttClient&, std::uint64_t tag, Time now) {
    settle(in_flight_.at(tag), Reason::success, now);
}

void Publisher::acknowledged(load::MqttClient&, std::uint64_t tag, Reason reason, Time, Time now) {
    settle(in_flight_.at(tag), reason, now);
    in_flight_.erase(tag);
}

void Publisher::settle(InFlight& one, Reason reason, Time now) {
    if (std::exchange(one.is_settled, true)) return;
    for (const Stream& copy : copies_of(one.message.stream, context().receivers)) {
        if (!is_error(reason)) {
            context().messages.acknowledge({copy, one.message.number}, now);
            continue;
        }
        context().messages.refuse({copy, one.message.number});
        if (copy.kind != Kind::retained) context().backlog.remove(copy.to);
    }
}

}  // namespace pulsegate::kill
