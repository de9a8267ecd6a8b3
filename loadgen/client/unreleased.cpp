#include "loadgen/client/unreleased.h"

#include <algorithm>

namespace pulsegate::load {

namespace {

/// Honest servers release a message within this time, or soon after the client is back.
constexpr Duration long_wait = std::chrono::seconds(10);

/// For fewer messages than this, the 8 KiB of `Identifiers` are not worth it.
constexpr std::size_t few_unreleased = 64;

}  // namespace

Unreleased::Arrival Unreleased::arrive(std::uint16_t packet_id, std::size_t payload, Time now) {
    const auto known = std::ranges::find(recent_, packet_id, &Message::packet_id);
    if (known != recent_.end()) return known->payload == payload ? Arrival::again : Arrival::other;
    if (old_ && old_->test(packet_id)) return Arrival::again;
    forget_payloads(now);
    recent_.push_back({packet_id, payload, now});
    return Arrival::first;
}

// Forgets the payloads of half of the messages at once, so that each message costs little.
void Unreleased::forget_payloads(Time now) {
    const std::size_t half = recent_.size() / 2;
    if (half < few_unreleased || recent_[half - 1].since > now - long_wait) return;
    if (!old_) old_ = std::make_unique<Identifiers>();
    const auto end = recent_.begin() + static_cast<std::ptrdiff_t>(half);
    for (auto message = recent_.begin(); message != end; ++message) old_->set(message->packet_id);
    newest_old_ = recent_[half - 1].since;
    old_count_ += static_cast<std::uint32_t>(half);
    recent_.erase(recent_.begin(), end);
}

bool Unreleased::release(std::uint16_t packet_id) {
    const auto is_it = [packet_id](const Message& each) { return each.packet_id == packet_id; };
    if (std::erase_if(recent_, is_it) > 0) return true;
    if (!old_ || !old_->test(packet_id)) return false;
    old_->reset(packet_id);
    if (--old_count_ == 0) old_.reset();
    return true;
}

void Unreleased::clear() {
    recent_.clear();
    old_.reset();
    old_count_ = 0;
}

std::size_t Unreleased::count(Time before) const {
    const auto is_earlier = [before](const Message& each) { return each.since < before; };
    const auto recent = static_cast<std::size_t>(std::ranges::count_if(recent_, is_earlier));
    return recent + (newest_old_ < before ? old_count_ : 0);
}

std::size_t Unreleased::memory() const {
    return recent_.capacity() * sizeof(Message) + (old_ ? sizeof(Identifiers) : 0);
}

}  // namespace pulsegate::load
