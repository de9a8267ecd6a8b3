#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "loadgen/client/mqtt_client.h"
#include "protocol/decode.h"

namespace pulsegate::load {

namespace {

std::string with_id(const char* packet, std::uint16_t id, const char* what) {
    return std::string(packet) + " for packet identifier " + std::to_string(id) + ", " + what;
}

}  // namespace

// -- reading --

std::size_t MqttClient::stream_bytes(Bytes bytes, Time now) {
    Bytes rest = bytes;
    host_.reading_ = this;
    const std::uint32_t connection = connections_;
    while (connection == connections_ && reads() && read_packet(rest, now)) {
    }
    if (connection == connections_ && reads()) send_answers();
    host_.reading_ = nullptr;
    return bytes.size() - rest.size();
}

bool MqttClient::reads() const {
    return stage_ != Stage::away && stage_ != Stage::connecting && stage_ != Stage::abandoned;
}

// False if there is no whole packet, or if nothing more may be read.
bool MqttClient::read_packet(Bytes& rest, Time now) {
    if (rest.empty()) return false;
    const Frame frame = next_frame(rest, max_packet_size, profile_.version);
    if (frame.status == Frame::Status::incomplete) return false;
    if (frame.status == Frame::Status::bad) {
        const bool too_large = frame.error.reason == Reason::packet_too_large;
        lose(too_large ? EndedBy::local : EndedBy::violation,
             too_large ? Reason::packet_too_large : Reason::success, frame.error.cause, now);
        return false;
    }
    const Decoded decoded = decode(rest.first(frame.size), profile_.version, Sender::server);
    if (const auto* error = std::get_if<DecodeError>(&decoded)) {
        lose(EndedBy::violation, Reason::success, error->cause, now);
        return false;
    }
    rest = rest.subspan(frame.size);
    ++host_.traffic.packets_received;
    const auto& packet = std::get<Packet>(decoded);
    // MQTT 3.1.1, 3.2.0-1.
    if (stage_ == Stage::logging_in && !std::holds_alternative<Connack>(packet)) {
        unexpected("a packet before the CONNACK", now);
        return false;
    }
    std::visit([&](const auto& its) { on(its, now); }, packet);
    return true;
}

// If the owner has sent raw bytes, the server may give any answer. Otherwise an unexpected packet
// ends the connection.
void MqttClient::unexpected(std::string_view cause, Time now) {
    if (!raw_) lose(EndedBy::violation, Reason::success, cause, now);
}

template <class Other>
void MqttClient::on(const Other&, Time now) {
    unexpected("the server sent a packet that is not for clients", now);
}

// -- the connection --

void MqttClient::on(const Connack& packet, Time now) {
    if (stage_ != Stage::logging_in && stage_ != Stage::open)
        return unexpected("a second CONNACK", now);
    if (packet.reason != Reason::success)
        return lose(EndedBy::refusal, packet.reason,
                    std::string("refused: ").append(name(packet.reason)), now);
    if (packet.session_present && !profile_.kept_session)
        return unexpected("CONNACK: a session is present, although none was to be kept", now);

    agree(packet);
    stage_ = Stage::online;
    if (session_ && !packet.session_present) {
        session_->unreleased.clear();
        doubt(session_->outflow.take_sent());
        drop_empty_session();
    }
    send_messages();
    host_.owner.connected(*this, packet.session_present, now);
}

void MqttClient::agree(const Connack& packet) {
    if (profile_.version == Version::v5_0)
        limits_.session_expiry = static_cast<std::uint32_t>(profile_.session_expiry.count());
    packet.properties.for_each([this](const PropertyValue& it) {
        const auto number16 = static_cast<std::uint16_t>(it.number);
        if (it.id == Property::server_keep_alive) keepalive_ = number16;
        if (it.id == Property::receive_maximum) limits_.receive_maximum = number16;
        if (it.id == Property::maximum_qos)
            limits_.max_qos = QoS{static_cast<std::uint8_t>(it.number)};
        if (it.id == Property::maximum_packet_size) limits_.max_packet_size = it.number;
        if (it.id == Property::session_expiry_interval) limits_.session_expiry = it.number;
    });
}

void MqttClient::on(const Disconnect& packet, Time now) {
    lose(EndedBy::disconnect, packet.reason,
         std::string("DISCONNECT: ").append(name(packet.reason)), now);
}

void MqttClient::on(const Pingresp&, Time now) {
    if (oldest_ping_ != Time()) return host_.owner.ping_answered(*this, take_oldest_ping(), now);
    if (given_up_pings_ == 0) return unexpected("PINGRESP without a PINGREQ", now);
    --given_up_pings_;
}

void MqttClient::on(const Suback& packet, Time now) {
    const auto id = packet.packet_id;
    auto& pending = session().subscriptions;
    const auto found = std::ranges::find(pending, id, &ClientSession::Subscription::packet_id);
    if (found == pending.end())
        return unexpected(with_id("SUBACK", id, "which no SUBSCRIBE has"), now);
    if (found->filters != packet.reasons.size())
        return unexpected(with_id("SUBACK", id, "without an answer to each filter"), now);
    const std::size_t first = found->first;
    pending.erase(found);
    if (pending.empty() && stage_ == Stage::subscribing) stage_ = Stage::online;
    drop_empty_session();
    host_.owner.subscribed(*this, first, packet.reasons, now);
}

// -- messages of others --

void MqttClient::on(const Publish& packet, Time now) {
    if (packet.properties.number(Property::topic_alias))
        return unexpected("PUBLISH: a topic alias, although none was allowed", now);
    const std::uint32_t connection = connections_;
    if (packet.qos == QoS::exactly_once) {
        receive_once(packet, now);
    } else {
        host_.owner.received(*this, packet, now);
    }
    if (connection == connections_ && !profile_.owner_acknowledges)
        acknowledge(packet.qos, packet.packet_id);
}

void MqttClient::acknowledge(QoS qos, std::uint16_t packet_id) {
    if (!answers()) return;
    if (qos == QoS::at_least_once) send(Puback{packet_id});
    if (qos == QoS::exactly_once) send(Pubrec{packet_id});
}

void MqttClient::receive_once(const Publish& packet, Time now) {
    const auto payload = std::hash<std::string_view>{}(packet.payload);
    const auto arrival = session().unreleased.arrive(packet.packet_id, payload, now);
    if (arrival == Unreleased::Arrival::first) return host_.owner.received(*this, packet, now);
    host_.owner.received_again(*this, packet, arrival == Unreleased::Arrival::again, now);
}

void MqttClient::on(const Pubrel& packet, Time) {
    const bool known = session_ && session_->unreleased.release(packet.packet_id);
    drop_empty_session();
    if (!answers()) return;
    send(Pubcomp{packet.packet_id, known ? Reason::success : Reason::packet_identifier_not_found});
}

// -- answers to messages --

void MqttClient::on(const Puback& packet, Time now) {
    settled(session().outflow.acknowledge(packet.packet_id), "PUBACK", packet.packet_id,
            packet.reason, now);
}

void MqttClient::on(const Pubrec& packet, Time now) {
    const auto id = packet.packet_id;
    if (is_error(packet.reason))
        return settled(session().outflow.refuse(id), "PUBREC", id, packet.reason, now);
    const auto message = session().outflow.release(id);
    if (!message) return unexpected(with_id("PUBREC", id, "which no message awaits"), now);
    if (answers()) send(Pubrel{id});
    if (message->overtaken) host_.owner.overtaken(*this, message->tag, now);
    host_.owner.taken_over(*this, message->tag, now);
}

// MQTT 5.0, 3.7.2.1: during recovery, a server that completed the message earlier may answer that
// it does not know the identifier.
void MqttClient::on(const Pubcomp& packet, Time now) {
    const bool is_known = packet.reason == Reason::packet_identifier_not_found;
    settled(session().outflow.complete(packet.packet_id), "PUBCOMP", packet.packet_id,
            is_known ? Reason::success : packet.reason, now);
}

void MqttClient::settled(std::optional<Outflow::Message> message, const char* packet,
                         std::uint16_t id, Reason reason, Time now) {
    if (!message) {
        drop_empty_session();
        return unexpected(with_id(packet, id, "which no message awaits"), now);
    }
    if (answers()) send_messages();
    drop_empty_session();
    if (message->overtaken) host_.owner.overtaken(*this, message->tag, now);
    host_.owner.acknowledged(*this, message->tag, reason, message->sent, now);
}

}  // namespace pulsegate::load
