#include "loadgen/truth/flow_total.h"

#include "loadgen/truth/wire.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t totals_head_size = 4 + 2 + 4;

void put_numbers(const Numbers& numbers, Buffer& out) {
    put(static_cast<std::uint32_t>(numbers.ranges().size()), out);
    for (const auto& [from, to] : numbers.ranges()) {
        put(from, out);
        put(to, out);
    }
}

[[nodiscard]] bool take_numbers(Bytes& in, Numbers& numbers) {
    if (in.size() < 4) return false;
    const auto count = take<std::uint32_t>(in);
    if (in.size() / 8 < count) return false;
    for (std::uint32_t at = 0; at < count; ++at) {
        const auto from = take<std::uint32_t>(in);
        const auto to = take<std::uint32_t>(in);
        numbers.add(from, to);
    }
    return true;
}

void put_times(const SendTimes& times, Buffer& out) {
    put(static_cast<std::uint8_t>(times.entries().size()), out);
    for (const auto& [number, at] : times.entries()) {
        put(number, out);
        put(static_cast<std::uint64_t>(at.time_since_epoch().count()), out);
    }
}

[[nodiscard]] bool take_times(Bytes& in, SendTimes& times) {
    if (in.empty()) return false;
    const auto count = take<std::uint8_t>(in);
    if (in.size() / 12 < count) return false;
    for (std::uint8_t at = 0; at < count; ++at) {
        const auto number = take<std::uint32_t>(in);
        times.add(number, Time(Duration(take<std::uint64_t>(in))));
    }
    return true;
}

}  // namespace

FlowTotal FlowTotal::of(std::uint32_t sender, std::uint16_t slot, const SentFlow& flow) {
    return {sender, slot, flow.sent(), flow.in_doubt(), flow.sent_again(), flow.times()};
}

void put(const FlowTotal& total, Buffer& out) {
    put(total.sender, out);
    put(total.slot, out);
    put(total.sent, out);
    put_numbers(total.in_doubt, out);
    put_numbers(total.sent_again, out);
    put_times(total.times, out);
}

std::optional<FlowTotal> take_flow_total(Bytes& in) {
    if (in.size() < totals_head_size) return {};
    FlowTotal total;
    total.sender = take<std::uint32_t>(in);
    total.slot = take<std::uint16_t>(in);
    total.sent = take<std::uint32_t>(in);
    if (!take_numbers(in, total.in_doubt) || !take_numbers(in, total.sent_again) ||
        !take_times(in, total.times))
        return {};
    return total;
}

}  // namespace pulsegate::load
