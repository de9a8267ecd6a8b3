#include "loadgen/client/mqtt_client.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "loadgen/client/identities.h"

namespace pulsegate::load {

namespace {

constexpr std::string_view pingreq("\xC0\x00", 2);

}  // namespace

MqttClient::MqttClient(ClientHost& host, const ClientProfile& profile, std::uint32_t its_number)
    : number(its_number), host_(host), profile_(profile), stream_(host, *this) {}

MqttClient::~MqttClient() = default;

// -- connecting --

void MqttClient::connect(Time now) { start(now, true); }

void MqttClient::open(Time now) { start(now, false); }

void MqttClient::start(Time now, bool logs_in) {
    assert(stage_ == Stage::away || stage_ == Stage::abandoned);
    if (stage_ == Stage::abandoned) {
        stream_.leave_half_open();
        leave_connection();
    }
    stage_ = Stage::connecting;
    logs_in_ = logs_in;
    raw_ = false;
    limits_ = {};
    keepalive_ = static_cast<std::uint16_t>(profile_.keepalive.count());
    ++connections_;
    connecting_since_ = now;

    const Endpoint& endpoint = profile_.endpoint_of(number);
    stream_.connect({.target = endpoint.address,
                     .source = profile_.source_of(number),
                     .tls = profile_.tls,
                     .websocket = profile_.websocket,
                     .host = endpoint.host,
                     .port = endpoint.port,
                     .path = endpoint.path,
                     .receive_buffer = profile_.receive_buffer});
}

void MqttClient::stream_open(Time now) {
    if (logs_in_) {
        stage_ = Stage::logging_in;
        send_bytes(connect_packet());
    } else {
        stage_ = Stage::open;
        host_.owner.opened(*this, now);
    }
}

std::string MqttClient::connect_packet() const {
    const Identity identity = profile_.identities ? profile_.identities->of(number)
                                                  : Identity{std::to_string(number), {}, {}};
    PropertyList properties;
    if (profile_.kept_session)
        properties.add(Property::session_expiry_interval,
                       static_cast<std::uint32_t>(profile_.session_expiry.count()));
    if (profile_.receive_maximum > 0)
        properties.add(Property::receive_maximum, profile_.receive_maximum);

    Connect packet;
    packet.version = profile_.version;
    packet.clean_start = !profile_.kept_session;
    packet.keepalive = static_cast<std::uint16_t>(profile_.keepalive.count());
    packet.client_id = identity.client_id;
    packet.username = identity.user;
    packet.password = identity.password;
    packet.properties = properties.view();
    host_.owner.logs_in(*this, packet);
    Buffer bytes;
    encode(packet, bytes);
    return bytes;
}

// -- what the owner has it do --

void MqttClient::subscribe(std::span<const SubscribeFilter> filters) {
    assert(logged_in() && !filters.empty());
    Subscribe packet;
    packet.packet_id = next_packet_id();
    packet.filters.assign(filters.begin(), filters.end());
    auto& pending = session().subscriptions;
    const auto first = pending.empty() ? 0 : pending.back().first + pending.back().filters;
    pending.push_back({packet.packet_id, static_cast<std::uint16_t>(filters.size()), first});
    stage_ = Stage::subscribing;
    send(packet);
}

bool MqttClient::publish(Publish message, std::uint64_t tag) {
    if (!logged_in() || stream_.unsent() > Stream::most_unsent) return false;
    if (const Reason reason = obstacle(message); reason != Reason::success) {
        const Time now = Clock::now();
        host_.owner.acknowledged(*this, tag, reason, now, now);
        return true;
    }
    if (message.qos == QoS::at_most_once) {
        send(message);
        return true;
    }
    if (session().outflow.full()) return false;
    message.packet_id = next_packet_id();
    Buffer bytes = session().outflow.take_buffer();
    encode(message, profile_.version, bytes);
    session().outflow.add(message.packet_id, message.qos, tag, std::move(bytes));
    send_messages();
    return true;
}

Reason MqttClient::obstacle(const Publish& message) const {
    if (message.qos > limits_.max_qos) return Reason::qos_not_supported;
    if (limits_.max_packet_size != UINT32_MAX &&
        encoded_size(message, profile_.version) > limits_.max_packet_size)
        return Reason::packet_too_large;
    return Reason::success;
}

void MqttClient::ping(Time now) {
    assert(logged_in());
    send_bytes(pingreq);
    // If the socket did not accept the ping, `before_send` is the time of an earlier send.
    const Time sent = std::max(now, stream_.before_send());
    if (oldest_ping_ == Time())
        oldest_ping_ = sent;
    else
        later_pings_.push_back(sent);
}

void MqttClient::give_up_ping() {
    if (take_oldest_ping() != Time() && given_up_pings_ < UINT16_MAX) ++given_up_pings_;
}

Time MqttClient::take_oldest_ping() {
    const Time sent = std::exchange(oldest_ping_, {});
    if (!later_pings_.empty()) {
        oldest_ping_ = later_pings_.front();
        later_pings_.erase(later_pings_.begin());
    }
    return sent;
}

void MqttClient::send_raw(std::string_view bytes) {
    raw_ = true;
    send_bytes(bytes);
}

void MqttClient::read_at_most(std::uint32_t bytes) { stream_.read_at_most(bytes); }

// -- going away --

void MqttClient::disconnect() {
    if (logged_in()) {
        send(Disconnect{});
        send_answers();
    }
    stream_.finish();
    leave_connection();
}

void MqttClient::close() {
    stream_.close();
    leave_connection();
}

void MqttClient::reset() {
    stream_.reset();
    leave_connection();
}

void MqttClient::fall_silent() {
    assert(logged_in());
    send_answers();
    stage_ = Stage::silent;
}

void MqttClient::abandon() {
    assert(stage_ != Stage::away);
    send_answers();
    stream_.freeze();
    stage_ = Stage::abandoned;
}

void MqttClient::leave_connection() {
    stage_ = Stage::away;
    oldest_ping_ = {};
    later_pings_ = {};
    given_up_pings_ = 0;
    if (host_.reading_ == this) host_.answers_.clear();
    if (!session_) return;
    session_->subscriptions.clear();
    if (profile_.kept_session) {
        session_->outflow.rewind();
    } else {
        session_->unreleased.clear();
        doubt(session_->outflow.take_all());
    }
    drop_empty_session();
}

void MqttClient::doubt(const std::vector<Outflow::Message>& messages) {
    for (const Outflow::Message& message : messages) host_.owner.in_doubt(*this, message.tag);
}

void MqttClient::stream_ended(EndedBy by, std::string_view cause, Time now) {
    lose(by, Reason::success, cause, now);
}

void MqttClient::lose(EndedBy by, Reason reason, std::string_view cause, Time now) {
    const Ending ending{by, stage_, reason, cause, oldest_ping_};
    stream_.close();
    leave_connection();
    host_.owner.closed(*this, ending, now);
}

// -- the session --

ClientSession& MqttClient::session() {
    if (!session_) session_ = host_.spare_sessions_.take();
    return *session_;
}

void MqttClient::drop_empty_session() {
    if (session_ && session_->empty()) host_.spare_sessions_.give_back(std::move(session_));
}

std::uint16_t MqttClient::next_packet_id() {
    const ClientSession& its = session();
    const auto awaits_suback = [this](const auto& it) { return it.packet_id == last_packet_id_; };
    do {
        if (++last_packet_id_ == 0) ++last_packet_id_;
    } while (its.outflow.uses(last_packet_id_) ||
             std::ranges::any_of(its.subscriptions, awaits_suback));
    return last_packet_id_;
}

std::size_t MqttClient::in_flight() const { return session_ ? session_->outflow.in_flight() : 0; }

std::size_t MqttClient::waiting() const { return session_ ? session_->outflow.waiting() : 0; }

std::size_t MqttClient::unreleased(Time before) const {
    return session_ ? session_->unreleased.count(before) : 0;
}

// -- sending --

void MqttClient::send_messages() {
    if (!session_ || session_->outflow.waiting() == 0) return;
    const Time now = Clock::now();
    while (const auto packet =
               session_->outflow.next(limits_.receive_maximum, profile_.kept_session, now)) {
        if (packet->release != 0) {
            send(Pubrel{packet->release});
        } else {
            send_bytes(packet->publish);
        }
    }
}

void MqttClient::send_bytes(std::string_view bytes) {
    ++host_.traffic.packets_sent;
    if (host_.reading_ == this) {
        host_.answers_ += bytes;
    } else {
        stream_.send(bytes);
    }
}

void MqttClient::send_answers() {
    if (host_.reading_ != this || host_.answers_.empty()) return;
    stream_.send(host_.answers_);
    host_.answers_.clear();
}

}  // namespace pulsegate::load
