#include "server/session/state/exchanges.h"

#include <algorithm>
#include <utility>

namespace pulsegate {

/// An empty one, which all shards read and nobody changes.
const Exchanges::Flow& Exchanges::no_flow() {
    static Outbox::Totals totals;
    static const Flow none(totals);
    return none;
}

Exchanges::Flow& Exchanges::flowing(Outbox::Totals& totals) {
    if (!flow_) flow_ = std::make_unique<Flow>(totals);
    return *flow_;
}

const Outbox& Exchanges::begin_inbox(Outbox::Totals& totals) {
    flow_ = std::make_unique<Flow>(totals, true);
    return flow_->outbox;
}

void Exchanges::free_if_idle() {
    const bool is_idle =
        flow_ && flow_->outbox.idle() && !flow_->received && flow_->answers.empty();
    if (is_idle && !flow_->outbox.is_inbox()) flow_.reset();
}

// -- messages to the client --

Outbox::InFlight& Exchanges::send(Outbox::Totals& totals, const Delivery& delivery) {
    // The identifier is used up even if the message is not sent, because the outbox counts the free
    // identifiers from here on.
    auto& sent = open_outbox(totals).send(delivery, last_packet_id_);
    last_packet_id_ = sent.packet_id;
    return sent;
}

Outbox::InFlight* Exchanges::send_next(std::uint16_t window, OwnerId owner) {
    if (!flow_) return nullptr;
    auto* next = flow_->outbox.send_next(window, last_packet_id_, owner);
    if (next && !next->again) last_packet_id_ = next->packet_id;
    return next;
}

// -- QoS 2 messages from the client --

void Exchanges::received(Outbox::Totals& totals, std::uint16_t packet_id) {
    auto& received = flowing(totals).received;
    if (!received) received = std::make_unique<Received>();
    received->unreleased.insert(packet_id);
}

bool Exchanges::release(std::uint16_t packet_id) {
    if (!flow_ || !flow_->received) return false;
    Received& received = *flow_->received;
    const bool again = std::ranges::find(received.released, packet_id) != received.released.end();
    const bool known = received.unreleased.erase(packet_id) > 0;
    if (known && !again) remember_released(received, packet_id);
    return known || again;
}

void Exchanges::remember_released(Received& received, std::uint16_t packet_id) {
    auto& [unreleased, released, oldest] = received;
    if (released.size() < released_kept) return released.push_back(packet_id);
    released[oldest] = packet_id;
    oldest = (oldest + 1) % released_kept;
}

Exchanges::Taken Exchanges::taken() const {
    if (!flow_ || !flow_->received) return {};
    const auto& [unreleased, released, oldest] = *flow_->received;
    Taken taken{{unreleased.begin(), unreleased.end()}, released};
    std::rotate(taken.released.begin(),
                taken.released.begin() + static_cast<std::ptrdiff_t>(oldest), taken.released.end());
    return taken;
}

void Exchanges::adopt(Outbox::Totals& totals, const Taken& taken) {
    if (flow_) flow_->received.reset();
    for (const std::uint16_t packet_id : taken.unreleased) received(totals, packet_id);
    if (!taken.released.empty()) {
        auto& all = flowing(totals).received;
        if (!all) all = std::make_unique<Received>();
        for (const std::uint16_t packet_id : taken.released) remember_released(*all, packet_id);
    }
    free_if_idle();
}

void Exchanges::clear() {
    flow_.reset();
    last_packet_id_ = 0;
}

}  // namespace pulsegate
