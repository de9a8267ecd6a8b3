#include "loadgen/stamp.h"

#include <algorithm>
#include <cassert>

namespace pulsegate::load {

namespace {

constexpr char filling = '.';

template <class Int>
void put(Int value, Buffer& out) {
    for (int shift = (sizeof(Int) - 1) * 8; shift >= 0; shift -= 8)
        out.push_back(static_cast<char>(value >> shift & 0xff));
}

template <class Int>
Int take(Bytes& in) {
    Int value = 0;
    for (std::size_t i = 0; i < sizeof(Int); ++i) value = static_cast<Int>(value << 8 | in[i]);
    in = in.subspan(sizeof(Int));
    return value;
}

}  // namespace

void write(const Stamp& stamp, std::size_t size, Buffer& out) {
    assert(size >= Stamp::size);
    out.clear();
    put(stamp.run, out);
    put(stamp.sequence, out);
    put(static_cast<std::uint64_t>(stamp.planned.time_since_epoch().count()), out);
    put(stamp.sender, out);
    put(stamp.receiver, out);
    out.resize(size, filling);
}

std::optional<Stamp> read_stamp(Bytes payload) {
    if (payload.size() < Stamp::size) return {};
    Stamp stamp;
    stamp.run = take<std::uint64_t>(payload);
    stamp.sequence = take<std::uint64_t>(payload);
    stamp.planned = Time(Duration(take<std::uint64_t>(payload)));
    stamp.sender = take<std::uint32_t>(payload);
    stamp.receiver = take<std::uint32_t>(payload);
    const bool whole = std::ranges::all_of(payload, [](auto byte) { return byte == filling; });
    return whole ? std::optional(stamp) : std::nullopt;
}

}  // namespace pulsegate::load
