#include "loadgen/kill/will_client.h"

#include <fmt/format.h>

#include <algorithm>

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

constexpr std::uint16_t shortest_will_delay = 2, longest_will_delay = 4;  // seconds

}  // namespace

WillClient::WillClient(RunContext& context, std::uint16_t number, Version version)
    : Client(context, client_name("mortal", number, context.run), version, Session::kept,
             short_keepalive),
      number_(number) {}

std::optional<Client::LastWill> WillClient::will() {
    auto& random = context().random;
    std::uint32_t delay = 0;
    if (version() == Version::v5_0 && random.below(2) == 0)
        delay = shortest_will_delay + random.below(longest_will_delay - shortest_will_delay + 1);
    const Time now = load::Clock::now();
    const Stream stream{Kind::will, number_, random.below(context().receivers.kept)};
    connection_ = {.will = context().messages.send(stream, now),
                   .delay = std::chrono::seconds(delay),
                   .limit = limit(),
                   .slowness = context().options.slowness};
    // If the login is interrupted, the broker may or may not have this will.
    context().messages.begin_will(connection_.will, now);
    return LastWill{topic_of(stream, context().run), payload_of(connection_.will, context().run),
                    delay};
}

void WillClient::on_login(bool) {
    connection_.since = online_since();
    context().messages.begin_will(connection_.will, Time::max());
    end_at_ = online_since() + context().random.between(300ms, 2s) * context().options.slowness;
    if (loss_) settle(online_since());
}

/// The connection ended without our doing, for example because the broker had accepted the login
/// while it was stopping. Then the will may arrive at any time after the login.
void WillClient::on_end() {
    if (!loss_) context().messages.begin_will(connection_.will, online_since());
}

void WillClient::work(Time now) {
    if (online() && !loss_ && (finishing_ || now >= end_at_)) {
        const bool goodbye = !finishing_ && context().random.below(3) == 0;
        lose(now, goodbye);
        end_connection(goodbye                          ? Ending::disconnect
                       : context().random.below(2) == 0 ? Ending::close
                                                        : Ending::reset);
        if (finishing_) begun_ = false;
    }
    if (offline() && loss_ && loss_->is_over(now - context().messages.own_delay(now))) settle(now);
    want_connection(online() || (begun_ && (!loss_ || finishing_ || now >= return_at_)));
}

void WillClient::lose(Time now, bool goodbye) {
    loss_.emplace(connection_, now, goodbye);
    return_at_ = context().random.below(2) == 0 ? now + connection_.delay / 4 : Time::max();
    if (!goodbye) context().messages.begin_will(connection_.will, now + connection_.delay);
}

void WillClient::broker_ended(BrokerEnd how, Time now) {
    const bool loses_it = online() && !loss_;
    if (loses_it) lose(now, false);
    if (!loss_) return;
    // An earlier kill may have given the client until its limit of silence. After a stop, the will
    // may come at once.
    if (how == BrokerEnd::stop && loss_->not_before())
        context().messages.begin_will(loss_->will(), std::min(*loss_->not_before(), now));
    loss_->broker_ended(how, now, !loses_it && !offline());
}

/// For the edge's clients, this is like a kill of a broker that serves again at once. If the broker
/// already waits for this client, the client's connection was to an earlier process, and the kill
/// of the edge changes nothing for it.
void WillClient::edge_killed(std::uint16_t place, Time now) {
    constexpr Duration time_for_link = 3s;  // the home gives the link 4 s, and then a tick passes
    const auto last = context().place_of.find(id());
    if (last == context().place_of.end() || last->second != place) return;
    if (offline() && loss_ && loss_->is_awaited()) return;
    broker_ended(BrokerEnd::kill, now);
    broker_serves({.started = now, .time_to_notice = time_for_link}, now);
}

void WillClient::broker_serves(const BrokerStart& start, Time now) {
    if (!loss_) return;
    loss_->broker_serves(start, now);
    if (const auto earliest = loss_->not_before())
        context().messages.begin_will(loss_->will(), *earliest);
}

void WillClient::settle(Time now) {
    switch (loss_->promise(now, context().messages.own_delay(now))) {
        case WillLoss::Promise::comes: context().messages.acknowledge(loss_->will(), now); break;
        case WillLoss::Promise::must_not_come:
            context().messages.take_back(loss_->will(), now);
            break;
        case WillLoss::Promise::open: break;
    }
    loss_.reset();
}

}  // namespace pulsegate::kill
