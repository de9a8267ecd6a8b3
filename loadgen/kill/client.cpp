#include "loadgen/kill/client.h"

#include <fmt/format.h>

#include <algorithm>

namespace pulsegate::kill {

using namespace std::chrono_literals;
using load::Stage;

namespace {

constexpr auto login_patience = 10s;
constexpr auto session_expiry = 24h;

bool is_online(Stage stage) { return stage == Stage::online || stage == Stage::subscribing; }

}  // namespace

Client::Client(RunContext& context, std::string id, Version version, Session session,
               std::chrono::seconds keepalive)
    : context_(context),
      id_(std::move(id)),
      profile_{.endpoints = {context.options.nodes.front()},
               .version = version,
               .keepalive = keepalive,
               .kept_session = session == Session::kept,
               .session_expiry = session_expiry},
      host_(context.loop, *this),
      mqtt_(host_, profile_, 0) {}

bool Client::online() const { return is_online(mqtt_.stage()); }

void Client::tick(Time now) {
    if (offline() && wanted_ && now >= retry_at_) connect(now);
    if (!offline() && !online() && now >= give_up_at_) end_connection(Ending::close);
    work(now);
    if (online() &&
        now >= std::max(mqtt_.before_send(), pinged_at_) + Duration(profile_.keepalive) / 4) {
        pinged_at_ = now;
        mqtt_.ping(now);
    }
}

void Client::connect(Time now) {
    give_up_at_ = now + login_patience;
    const auto& nodes = context_.options.nodes;
    place_ = nodes.size() > 1 ? context_.random.below(nodes.size()) : std::uint16_t{};
    profile_.endpoints.front() = nodes[place_];
    mqtt_.connect(now);
}

void Client::logs_in(const load::MqttClient&, Connect& packet) {
    context_.place_of[id_] = place_;
    packet.client_id = id_;
    will_ = will();
    will_properties_ = {};
    if (will_) {
        if (will_->delay > 0) will_properties_.add(Property::will_delay_interval, will_->delay);
        packet.will = Will{.topic = will_->topic,
                           .payload = will_->payload,
                           .qos = QoS::exactly_once,
                           .properties = will_properties_.view()};
    }
    context_.presence.change(id_, std::nullopt, load::Clock::now(), limit());
}

void Client::connected(load::MqttClient&, bool session_present, Time now) {
    refusal_.clear();
    online_since_ = now;
    context_.presence.change(id_, true, now, limit());
    on_login(session_present);
}

void Client::subscribe(const std::string& filter, QoS qos) {
    const SubscribeFilter one{filter, {.qos = qos}};
    mqtt_.subscribe({&one, 1});
}

void Client::closed(load::MqttClient&, const load::Ending& ending, Time now) {
    if (ending.by == load::EndedBy::violation ||
        (ending.by == load::EndedBy::local && ending.reason == Reason::packet_too_large))
        context_.messages.note_fault(fmt::format("a bad packet to {}: {}", id_, ending.cause), now);
    if (ending.by == load::EndedBy::refusal) refusal_ = ending.cause;
    connection_ended(is_online(ending.stage), now);
}

void Client::end_connection(Ending how) {
    if (offline()) return;
    const bool was_online = online();
    switch (how) {
        case Ending::disconnect: mqtt_.disconnect(); break;
        case Ending::close: mqtt_.close(); break;
        case Ending::reset: mqtt_.reset(); break;
    }
    connection_ended(was_online, load::Clock::now());
}

void Client::connection_ended(bool was_online, Time now) {
    context_.presence.change(id_, false, now, limit());
    retry_at_ = now + context_.random.between(50ms, 150ms);
    if (was_online) on_end();
}

}  // namespace pulsegate::kill
