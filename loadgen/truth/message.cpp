#include "loadgen/truth/message.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "loadgen/truth/mixing.h"
#include "loadgen/truth/wire.h"

namespace pulsegate::load {

namespace {

std::uint64_t mixed(const Message& message) {
    return mix(message.run, static_cast<std::uint64_t>(message.planned.time_since_epoch().count()),
               std::uint64_t{message.sender} << 32 | message.receiver,
               std::uint64_t{message.slot} << 32 | message.sequence);
}

/// The rest of the payload repeats these eight bytes.
struct Filling {
    explicit Filling(std::uint64_t seed) { std::memcpy(bytes, &seed, sizeof bytes); }
    char bytes[8];
};

}  // namespace

void write_message(const Message& message, std::size_t size, Buffer& out) {
    assert(size >= Message::size);
    const std::uint64_t seed = mixed(message);
    out.clear();
    put(message.run, out);
    put(static_cast<std::uint64_t>(message.planned.time_since_epoch().count()), out);
    put(message.sender, out);
    put(message.receiver, out);
    put(message.slot, out);
    put(static_cast<std::uint16_t>(seed), out);
    put(message.sequence, out);
    const Filling filling(seed);
    while (out.size() + sizeof filling.bytes <= size)
        out.append(filling.bytes, sizeof filling.bytes);
    out.append(filling.bytes, size - out.size());
}

std::optional<Message> read_message(Bytes payload) {
    if (payload.size() < Message::size) return {};
    Message message;
    message.run = take<std::uint64_t>(payload);
    message.planned = Time(Duration(take<std::uint64_t>(payload)));
    message.sender = take<std::uint32_t>(payload);
    message.receiver = take<std::uint32_t>(payload);
    message.slot = take<std::uint16_t>(payload);
    const auto check = take<std::uint16_t>(payload);
    message.sequence = take<std::uint32_t>(payload);

    return check == static_cast<std::uint16_t>(mixed(message)) ? std::optional(message)
                                                               : std::nullopt;
}

bool is_whole(const Message& message, Bytes payload) {
    const Filling filling(mixed(message));
    for (auto rest = payload.subspan(Message::size); !rest.empty();) {
        const auto size = std::min(rest.size(), sizeof filling.bytes);
        if (std::memcmp(rest.data(), filling.bytes, size) != 0) return false;
        rest = rest.subspan(size);
    }
    return true;
}

}  // namespace pulsegate::load
