#include "loadgen/client/outflow.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pulsegate::load {

namespace {

constexpr char dup_flag = 0x08;

}  // namespace

bool Outflow::uses(std::uint16_t id) const {
    return std::ranges::any_of(messages_, [&](const Item& item) { return item.id == id; });
}

std::string Outflow::take_buffer() {
    sending_.clear();
    return std::exchange(sending_, {});
}

void Outflow::add(std::uint16_t id, QoS qos, std::uint64_t tag, std::string publish) {
    messages_.push_back({{tag, Time()}, std::move(publish), id, qos});
}

std::optional<Outflow::Packet> Outflow::next(std::size_t window, bool keep, Time now) {
    if (waiting() == 0 || in_flight_ >= window) return std::nullopt;
    Item& item = messages_[in_flight_++];
    item.message.overtaken = false;
    if (item.state == State::released) return Packet{{}, item.id};
    if (item.state == State::sent) item.publish.front() |= dup_flag;
    if (item.state == State::unsent) item.message.sent = now;
    item.state = State::sent;
    if (keep) return Packet{item.publish, 0};
    sending_ = std::move(item.publish);
    item.publish = std::string();
    return Packet{sending_, 0};
}

// Only messages in flight can be acknowledged, and mostly the oldest one is. Messages before it
// that await the same answer are overtaken.
Outflow::Item* Outflow::find(std::uint16_t id, QoS qos, State state) {
    const auto end = messages_.begin() + static_cast<std::ptrdiff_t>(in_flight_);
    const auto found =
        std::find_if(messages_.begin(), end, [id](const Item& item) { return item.id == id; });
    if (found == end || found->qos != qos || found->state != state) return nullptr;
    for (auto item = messages_.begin(); item != found; ++item)
        if (item->qos == qos && item->state == state) item->message.overtaken = true;
    return &*found;
}

std::optional<Outflow::Message> Outflow::remove(const Item* item) {
    if (!item) return std::nullopt;
    const Message message = item->message;
    messages_.erase(messages_.begin() + (item - messages_.data()));
    --in_flight_;
    return message;
}

std::optional<Outflow::Message> Outflow::acknowledge(std::uint16_t id) {
    return remove(find(id, QoS::at_least_once, State::sent));
}

std::optional<Outflow::Message> Outflow::release(std::uint16_t id) {
    Item* item = find(id, QoS::exactly_once, State::sent);
    if (!item) return std::nullopt;
    const Message message = item->message;
    item->state = State::released;
    item->message.overtaken = false;
    item->publish = std::string();
    return message;
}

std::optional<Outflow::Message> Outflow::refuse(std::uint16_t id) {
    return remove(find(id, QoS::exactly_once, State::sent));
}

std::optional<Outflow::Message> Outflow::complete(std::uint16_t id) {
    return remove(find(id, QoS::exactly_once, State::released));
}

std::vector<Outflow::Message> Outflow::take_sent() {
    std::vector<Message> sent;
    std::erase_if(messages_, [&](const Item& item) {
        if (item.state != State::unsent) sent.push_back(item.message);
        return item.state != State::unsent;
    });
    in_flight_ = 0;
    return sent;
}

std::vector<Outflow::Message> Outflow::take_all() {
    std::vector<Message> all;
    for (const Item& item : messages_) all.push_back(item.message);
    messages_.clear();
    in_flight_ = 0;
    return all;
}

}  // namespace pulsegate::load
