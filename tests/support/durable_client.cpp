#include "tests/support/durable_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "protocol/decode.h"
#include "protocol/properties.h"
#include "server/base/overloaded.h"
#include "server/session/terms/homes.h"
#include "tests/support/session_model.h"

namespace pulsegate {

namespace {

constexpr std::uint32_t long_expiry = 100'000;  // seconds

DeliveryModel::Number number_in(std::string_view payload) {
    DeliveryModel::Number number = 0;
    for (const char c : payload.substr(0, payload.find(' ')))
        number = number * 10 + static_cast<DeliveryModel::Number>(c - '0');
    return number;
}

/// What comes with this identifier comes by the shared subscription; in 3.1.1, which has none, all
/// of its topic does.
constexpr std::uint32_t id_of_group = 7;

bool is_group(std::string_view filter) { return filter.starts_with("$share/"); }

bool is_of_group(const Publish& publish, Version version) {
    if (version != Version::v5_0) return publish.topic.starts_with("s/");
    return publish.properties.number(Property::subscription_identifier) == id_of_group;
}

bool is_refusal(Reason reason) { return static_cast<std::uint8_t>(reason) >= 0x80; }

}  // namespace

/// Some fill more than a page of the database.
std::string payload_of(DeliveryModel::Number number) {
    return fmt::format("{} {}", number, std::string(number % 16 == 15 ? 5000 : 20, 'x'));
}

// -- connections --

void DurableClient::connect(BrokerCluster& cluster, bool clean, std::optional<Number> will) {
    if (is_here()) break_connection();
    gone();
    awaited_wills_.clear();
    cluster_ = &cluster;
    clean |= has_discarded_;
    has_discarded_ = clean;
    clean_ = clean;
    has_connack_ = false;
    if (clean) discard_session();
    // In 3.1.1 a clean session ends with its connection.
    keeps_session_ = terms_.keeps_session && !(clean && terms_.version == Version::v3_1_1);
    asked_will_ = will;
    const unsigned shard = Homes(cluster.shards()).shard_of(terms_.user);
    link_ = std::make_unique<KeptLink>(shard);
    link_->heard = cluster.now;
    PropertyList properties;
    if (terms_.version == Version::v5_0) {
        if (terms_.keeps_session) properties.add(Property::session_expiry_interval, long_expiry);
        if (terms_.window != 65'535) properties.add(Property::receive_maximum, terms_.window);
    }
    Connect connect{.version = terms_.version,
                    .clean_start = clean,
                    .keepalive = limit / 1500,
                    .client_id = terms_.name,
                    .username = terms_.user,
                    .properties = properties.view()};
    std::string payload;
    if (will) {
        const auto& note = model_.note(*will);
        payload = payload_of(*will);
        connect.will = Will{note.topic, payload, note.qos};
    }
    cluster.adopt(*link_);
    cluster.broker(shard).logins().login(*link_, connect, {}, cluster.now);
}

void DurableClient::disconnect() {
    will_.reset();
    handle(Disconnect{});
}

void DurableClient::lose_connection() {
    break_connection();
    link_->end({Cause::connection_lost, Reason::success, "lost"});
}

/// A client that does not disconnect has a will.
void DurableClient::break_connection() {
    if (will_ && will_is_certain_ && keeps_session_) lost_wills_.push_back(*will_);
    will_.reset();
}

void DurableClient::crash() {
    if (is_here()) break_connection();
    gone();
    awaited_wills_.insert(awaited_wills_.end(), lost_wills_.begin(), lost_wills_.end());
    lost_wills_.clear();
}

std::optional<SessionRecord> DurableClient::describe(Millis now) const {
    if (!is_here()) return std::nullopt;
    return cluster_->broker(link_->shard).passage().describe(*link_->session, now);
}

void DurableClient::pass(BrokerCluster& cluster, const SessionRecord& record) {
    auto link = std::make_unique<KeptLink>(Homes(cluster.shards()).shard_of(terms_.user));
    link->bytes = std::move(link_->bytes);
    link->heard = link_->heard;
    link->set_limit(link_->limit());
    links_.push_back(std::exchange(link_, std::move(link)));
    cluster_ = &cluster;
    cluster.adopt(*link_);
    if (!cluster.broker(link_->shard).passage().adopt(record, *link_, cluster.now))
        throw Broken("the session of " + terms_.name + " is not adopted");
}

void DurableClient::stop() {
    crash();
    stay_away();
    settle();
}

void DurableClient::stay_away() {
    lost_wills_.insert(lost_wills_.end(), awaited_wills_.begin(), awaited_wills_.end());
    awaited_wills_.clear();
}

void DurableClient::settle() {
    will_is_certain_ = true;
    for (const Number will : lost_wills_) model_.acknowledge(will);
    lost_wills_.clear();
}

/// A clean start discards what client and gateway know of each other (MQTT 5.0, 3.1.2.4).
void DurableClient::discard_session() {
    model_.begin_anew(terms_.name);
    received_.clear();
    forget_exchanges();
}

void DurableClient::gone() {
    if (!link_) return;
    links_.push_back(std::move(link_));
    due_.clear();
    subscribing_.clear();
    unsubscribing_.clear();
    model_.disconnected(terms_.name);
    if (keeps_session_) return;
    received_.clear();
    forget_exchanges();
}

/// Nobody knows what becomes of messages of QoS 2, so they are not sent again.
void DurableClient::forget_exchanges() {
    std::erase_if(sent_, [](const Sent& sent) { return sent.qos == QoS::exactly_once; });
}

// -- requests --

void DurableClient::handle(const Packet& packet) {
    if (!is_here()) return;
    link_->heard = cluster_->now;
    cluster_->broker(link_->shard).handle(*link_->session, packet, cluster_->now);
}

void DurableClient::subscribe(const std::string& filter, QoS qos) {
    subscribing_[++last_request_] = model_.subscribe(terms_.name, filter, qos);
    PropertyList properties;
    if (is_group(filter) && terms_.version == Version::v5_0)
        properties.add(Property::subscription_identifier, id_of_group);
    handle(Subscribe{.packet_id = last_request_,
                     .filters = {{filter, {.qos = qos}}},
                     .properties = properties.view()});
}

void DurableClient::unsubscribe(const std::string& filter) {
    model_.unsubscribe(terms_.name, filter);
    unsubscribing_[++last_request_] = filter;
    handle(Unsubscribe{.packet_id = last_request_, .filters = {filter}});
}

DurableClient::Sent DurableClient::made(Number number, std::string topic) const {
    const auto& note = model_.note(number);
    return {.topic = std::move(topic),
            .qos = note.qos,
            .retain = note.retain,
            .payload = note.deletes ? "" : payload_of(number),
            .number = number};
}

void DurableClient::publish(Number number, std::string topic) {
    send_new(made(number, std::move(topic)));
}

void DurableClient::publish_delayed(Number number, unsigned seconds) {
    Sent publish = made(number, fmt::format("$delayed/{}/{}", seconds, model_.note(number).topic));
    publish.delay_name = fmt::format("m{}", number);
    send_new(std::move(publish));
}

void DurableClient::cancel(Number number, QoS qos) {
    model_.try_to_cancel(number);
    send_new({.topic = fmt::format("$delayed/cancel/m{}", number), .qos = qos, .cancels = number});
}

void DurableClient::send_new(Sent publish) {
    if (publish.qos == QoS::at_most_once) return send(publish, false);
    publish.packet_id = free_id();
    send(sent_.emplace_back(std::move(publish)), false);
}

std::uint16_t DurableClient::free_id() const {
    std::uint16_t id = 1;
    while (std::ranges::any_of(sent_, [&](const Sent& sent) { return sent.packet_id == id; })) ++id;
    return id;
}

void DurableClient::send(const Sent& publish, bool again) {
    PropertyList properties;
    if (!publish.delay_name.empty() && terms_.version == Version::v5_0)
        properties.add_user("delay-id", publish.delay_name);
    handle(Publish{.dup = again,
                   .qos = publish.qos,
                   .retain = publish.retain,
                   .topic = publish.topic,
                   .packet_id = publish.packet_id,
                   .properties = properties.view(),
                   .payload = publish.payload});
}

// -- answers --

bool DurableClient::read() {
    if (!link_) return false;
    const std::string bytes = std::exchange(link_->bytes, {});
    Bytes rest = as_bytes(bytes);
    while (!rest.empty()) {
        const Frame frame = next_frame(rest, 1 << 20);
        if (frame.status != Frame::Status::complete) throw Broken("no packet");
        const Decoded decoded = decode(rest.first(frame.size), terms_.version, Sender::server);
        rest = rest.subspan(frame.size);
        if (const auto* packet = std::get_if<Packet>(&decoded))
            read(*packet);
        else
            throw Broken("a bad packet");
    }
    const bool ends = link_->ending && !link_->session;
    if (ends) break_connection();
    if (ends) gone();
    return !bytes.empty() || ends;
}

void DurableClient::read(const Packet& packet) {
    std::visit(Overloaded{
                   [&](const Connack& connack) { read(connack); },
                   [&](const Publish& publish) { read(publish); },
                   [&](const Puback& puback) { answered(puback.packet_id, puback.reason, true); },
                   [&](const Pubrec& pubrec) { answered(pubrec.packet_id, pubrec.reason, false); },
                   [&](const Pubcomp& pubcomp) {
                       const auto found = find(pubcomp.packet_id);
                       if (found != sent_.end() && found->is_received) sent_.erase(found);
                   },
                   [&](const Pubrel& pubrel) {
                       log_(fmt::format("  {}: PUBREL {}", terms_.name, pubrel.packet_id));
                       received_.erase(pubrel.packet_id);
                       due(Pubcomp{pubrel.packet_id, Reason::success, {}});
                   },
                   [&](const Suback& suback) {
                       log_(fmt::format("  {}: SUBACK {}", terms_.name, suback.packet_id));
                       const auto subscription = subscribing_.at(suback.packet_id);
                       // It is refused while the disk fails.
                       if (!is_refusal(suback.reasons.at(0)))
                           model_.subscribed(terms_.name, subscription);
                   },
                   [&](const Unsuback& unsuback) {
                       log_(fmt::format("  {}: UNSUBACK {}", terms_.name, unsuback.packet_id));
                       model_.unsubscribed(terms_.name, unsubscribing_.at(unsuback.packet_id));
                   },
                   [&](const auto&) { throw Broken("a packet that it should not get"); },
               },
               packet);
}

void DurableClient::read(const Connack& connack) {
    if (connack.reason != Reason::success) return;  // while the disk fails
    log_(fmt::format("  {}: CONNACK, {}", terms_.name,
                     connack.session_present ? "the session is present" : "a new session"));
    model_.connected(terms_.name, terms_.user, clean_, keeps_session_, connack.session_present);
    has_connack_ = true;
    has_discarded_ = false;
    will_ = asked_will_;
    will_is_certain_ = false;
    if (connack.session_present)
        go_on();
    else
        begin_anew();
}

/// Sends again what was not acknowledged (MQTT 5.0, 4.4).
void DurableClient::go_on() {
    for (Sent& sent : sent_)
        if (sent.is_received)
            handle(Pubrel{sent.packet_id, Reason::success, {}});
        else
            send_again(sent, true);
}

/// What has come of a cancellation, the answer to the second one does not tell.
void DurableClient::send_again(Sent& publish, bool as_duplicate) {
    publish.cancels.reset();
    if (publish.number) model_.send_again(*publish.number);
    send(publish, as_duplicate);
}

void DurableClient::begin_anew() {
    received_.clear();
    forget_exchanges();
    for (Sent& sent : sent_) send_again(sent, false);
}

void DurableClient::read(const Publish& publish) {
    ++received_count_;
    const Number number = number_in(publish.payload);
    const auto id = publish.packet_id;
    bool is_new = true;
    log_(fmt::format("  {} gets {} at QoS {}, identifier {}{}", terms_.name, number,
                     static_cast<int>(publish.qos), id, publish.dup ? ", again" : ""));
    if (publish.qos == QoS::exactly_once) {
        const auto [known, added] = received_.emplace(id, number);
        is_new = added;
        if (!is_new && (known->second != number || !publish.dup))
            throw Broken(
                fmt::format("{} takes {} for {}, but has not released identifier {} of the latter",
                            terms_.name, number, known->second, id));
    }
    model_.receive(terms_.name,
                   {.number = number,
                    .qos = publish.qos,
                    .is_new = is_new,
                    .by_group = is_of_group(publish, terms_.version),
                    .dup = publish.dup},
                   calendar_time(cluster_->now));
    if (publish.retain) retained_[std::string(publish.topic)] = number;
    if (publish.qos == QoS::at_least_once) due(Puback{id, Reason::success, {}});
    if (publish.qos == QoS::exactly_once) due(Pubrec{id, Reason::success, {}});
}

void DurableClient::due(Packet packet) {
    due_.push_back(std::move(packet));
    if (acknowledges_at_once) acknowledge();
}

void DurableClient::acknowledge() {
    while (!due_.empty() && is_here()) {
        handle(due_.front());
        due_.pop_front();
    }
}

std::list<DurableClient::Sent>::iterator DurableClient::find(std::uint16_t packet_id) {
    return std::ranges::find(sent_, packet_id, &Sent::packet_id);
}

/// A PUBACK, which completes it, or a PUBREC.
void DurableClient::answered(std::uint16_t packet_id, Reason reason, bool completes) {
    const auto found = find(packet_id);
    if (found == sent_.end()) throw Broken("an answer to nothing");
    log_(fmt::format("  {}: {} {} {} with {:#x}", terms_.name, completes ? "PUBACK" : "PUBREC",
                     packet_id, found->topic, static_cast<int>(reason)));
    if (is_refusal(reason)) {
        if (found->number) model_.refuse(*found->number);
        sent_.erase(found);
        return;
    }
    if (found->number) model_.acknowledge(*found->number);
    if (found->cancels && terms_.version == Version::v5_0 && reason == Reason::success)
        model_.cancelled(*found->cancels);
    if (completes) {
        sent_.erase(found);
        return;
    }
    found->is_received = true;
    due(Pubrel{packet_id, Reason::success, {}});
}

}  // namespace pulsegate
