#include "loadgen/kill/will_client.h"

#include <fmt/format.h>

#include <algorithm>

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

constexpr std::uint16_t shortest_will_delay = 2, longest_will_delay = 4;  // seconds

}  // namespace

WillClient::WillClient(Scene& scene, std::uint16_t number, Version version)
    : Client(scene, client_name("mortal", number, scene.run), version, Session::kept,
             short_keepalive),
      number_(number) {}

std::optional<Client::LastWill> WillClient::will() {
    auto& dice = scene().dice;
    std::uint32_t delay = 0;
    if (version() == Version::v5_0 && dice.below(2) == 0)
        delay = shortest_will_delay + dice.below(longest_will_delay - shortest_will_delay + 1);
    const Time now = load::Clock::now();
    const Stream stream{Kind::will, number_, dice.below(scene().audience.kept)};
    connection_ = {.will = scene().book.send(stream, now),
                   .delay = std::chrono::seconds(delay),
                   .limit = limit(),
                   .slowness = scene().options.slowness};
    // If the login is interrupted, the broker may or may not have this will.
    scene().book.begin_will(connection_.will, now);
    return LastWill{topic_of(stream, scene().run), payload_of(connection_.will, scene().run),
                    delay};
}

void WillClient::on_login(bool) {
    connection_.since = online_since();
    scene().book.begin_will(connection_.will, Time::max());
    end_at_ = online_since() + scene().dice.between(300ms, 2s) * scene().options.slowness;
    if (loss_) settle(online_since());
}

/// The connection ended without our doing, for example because the broker had accepted the login
/// while it was stopping. Then the will may arrive at any time after the login.
void WillClient::on_end() {
    if (!loss_) scene().book.begin_will(connection_.will, online_since());
}

void WillClient::work(Time now) {
    if (online() && !loss_ && (finishing_ || now >= end_at_)) {
        const bool goodbye = !finishing_ && scene().dice.below(3) == 0;
        lose(now, goodbye);
        end_connection(goodbye                      ? Ending::disconnect
                       : scene().dice.below(2) == 0 ? Ending::close
                                                    : Ending::reset);
        if (finishing_) begun_ = false;
    }
    if (offline() && loss_ && loss_->is_over(now - scene().book.own_delay(now))) settle(now);
    want_connection(online() || (begun_ && (!loss_ || finishing_ || now >= return_at_)));
}

void WillClient::lose(Time now, bool goodbye) {
    loss_.emplace(connection_, now, goodbye);
    return_at_ = scene().dice.below(2) == 0 ? now + connection_.delay / 4 : Time::max();
    if (!goodbye) scene().book.begin_will(connection_.will, now + connection_.delay);
}

void WillClient::broker_ended(BrokerEnd how, Time now) {
    const bool loses_it = online() && !loss_;
    if (loses_it) lose(now, false);
    if (!loss_) return;
    // An earlier kill may have given the client until its limit of silence. After a stop, the will
    // may come at once.
    if (how == BrokerEnd::stop && loss_->not_before())
        scene().book.begin_will(loss_->will(), std::min(*loss_->not_before(), now));
    loss_->broker_ended(how, now, !loses_it && !offline());
}

/// For the edge's clients, this is like a kill of a broker that serves again at once. If the broker
/// already waits for this client, the client's connection was to an earlier process, and the kill
/// of the edge changes nothing for it.
void WillClient::edge_killed(std::uint16_t place, Time now) {
    constexpr Duration time_for_link = 3s;  // the home gives the link 4 s, and then a tick passes
    const auto last = scene().place_of.find(id());
    if (last == scene().place_of.end() || last->second != place) return;
    if (offline() && loss_ && loss_->is_awaited()) return;
    broker_ended(BrokerEnd::kill, now);
    broker_serves({.started = now, .time_to_notice = time_for_link}, now);
}

void WillClient::broker_serves(const BrokerStart& start, Time now) {
    if (!loss_) return;
    loss_->broker_serves(start, now);
    if (const auto earliest = loss_->not_before())
        scene().book.begin_will(loss_->will(), *earliest);
}

void WillClient::settle(Time now) {
    switch (loss_->promise(now, scene().book.own_delay(now))) {
        case WillLoss::Promise::comes: scene().book.acknowledge(loss_->will(), now); break;
        case WillLoss::Promise::must_not_come: scene().book.take_back(loss_->will(), now); break;
        case WillLoss::Promise::open: break;
    }
    loss_.reset();
}

}  // namespace pulsegate::kill
