#include "server/store/rows/row_codec.h"

#include <algorithm>
#include <array>
#include <boost/endian/conversion.hpp>
#include <iterator>
#include <memory>
#include <utility>

#include "server/store/rows/crc32c.h"
#include "server/store/rows/numbers.h"

namespace pulsegate {

namespace {

constexpr unsigned qos_bits = 0x03;
constexpr unsigned retain_bit = 0x04;
constexpr unsigned identifiers_bit = 0x08;
constexpr unsigned share_bit = 0x10;

/// Reads numbers that `append_number` has written. Returns zeros at the end.
class NumberReader {
public:
    explicit NumberReader(std::string_view bytes) : left_(bytes) {}

    bool done() const { return left_.empty(); }

    std::uint8_t byte() {
        if (left_.empty()) return 0;
        const auto first = static_cast<std::uint8_t>(left_.front());
        left_.remove_prefix(1);
        return first;
    }

    std::uint64_t number() { return take_number(left_).value_or(0); }

    std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }

    std::string_view text() {
        const auto size = std::min<std::uint64_t>(number(), left_.size());
        const std::string_view text = left_.substr(0, size);
        left_.remove_prefix(size);
        return text;
    }

private:
    std::string_view left_;
};

bool by_owner(const Receiver& a, const Receiver& b) { return a.owner < b.owner; }

void append_receiver(std::string& out, const Receiver& receiver, OwnerId previous) {
    append_number(out, receiver.owner - previous);
    const bool identified = !receiver.identifiers.empty();
    out +=
        static_cast<char>(static_cast<unsigned>(receiver.qos) | (receiver.retain ? retain_bit : 0) |
                          (identified ? identifiers_bit : 0) | (receiver.share ? share_bit : 0));
    if (identified) {
        append_number(out, receiver.identifiers.size());
        for (const auto identifier : receiver.identifiers) append_number(out, identifier);
    }
    if (receiver.share) {
        append_number(out, receiver.share->size());
        out += *receiver.share;
    }
}

Receiver read_receiver(NumberReader& in, OwnerId previous) {
    Receiver receiver;
    receiver.owner = previous + in.number32();
    const unsigned bits = in.byte();
    receiver.qos = static_cast<QoS>(bits & qos_bits);
    receiver.retain = (bits & retain_bit) != 0;
    if ((bits & identifiers_bit) != 0)
        for (auto count = in.number(); count > 0 && !in.done(); --count)
            receiver.identifiers.push_back(in.number32());
    if ((bits & share_bit) != 0) receiver.share = std::make_shared<const std::string>(in.text());
    return receiver;
}

using Seal = std::array<char, 4>;

Seal seal_of(Stamp stamp, std::string_view list) {
    std::string stamp_bytes;
    append_number(stamp_bytes, stamp);
    Seal seal{};
    boost::endian::store_little_u32(reinterpret_cast<unsigned char*>(seal.data()),
                                    checksum({stamp_bytes, list}));
    return seal;
}

}  // namespace

std::uint32_t checksum(std::initializer_list<std::string_view> texts) {
    Crc32c sum;
    for (const std::string_view text : texts) sum.add(text);
    return sum.value();
}

/// Sorts pointers, because a room may have thousands of receivers.
std::string encode_receivers(Stamp stamp, const std::vector<Receiver>& receivers) {
    std::vector<const Receiver*> ordered(receivers.size());
    std::ranges::transform(receivers, ordered.begin(), [](const Receiver& each) { return &each; });
    std::ranges::sort(ordered, {}, &Receiver::owner);
    constexpr std::size_t usual_size = 4;
    std::string out;
    out.reserve(sizeof(Seal) + usual_size * receivers.size());
    out.resize(sizeof(Seal));
    OwnerId previous = 0;
    for (const Receiver* receiver : ordered) {
        append_receiver(out, *receiver, previous);
        previous = receiver->owner;
    }
    const Seal seal = seal_of(stamp, std::string_view(out).substr(sizeof(Seal)));
    std::ranges::copy(seal, out.begin());
    return out;
}

std::optional<std::vector<Receiver>> decode_receivers(Stamp stamp, std::string_view bytes) {
    if (bytes.size() < sizeof(Seal)) return std::nullopt;
    const std::string_view list = bytes.substr(sizeof(Seal));
    if (!std::ranges::equal(bytes.substr(0, sizeof(Seal)), seal_of(stamp, list)))
        return std::nullopt;
    std::vector<Receiver> receivers;
    NumberReader in(list);
    for (OwnerId previous = 0; !in.done(); previous = receivers.back().owner)
        receivers.push_back(read_receiver(in, previous));
    return receivers;
}

std::vector<Receiver> merge_receivers(std::vector<Receiver> stored, std::vector<Receiver> added) {
    std::sort(added.begin(), added.end(), by_owner);
    for (Receiver& each : added) {
        const auto [same, end] = std::equal_range(stored.begin(), stored.end(), each, by_owner);
        if (same != end && !each.share) each.share = same->share;
    }
    std::vector<Receiver> merged;
    // If both lists have an owner, set_union takes the entry of the first range.
    std::set_union(std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()),
                   std::make_move_iterator(stored.begin()), std::make_move_iterator(stored.end()),
                   std::back_inserter(merged), by_owner);
    return merged;
}

std::string encode_stamps(const std::vector<Stamp>& stamps) {
    std::string out;
    Stamp previous = 0;
    for (const Stamp stamp : stamps) append_number(out, stamp - std::exchange(previous, stamp));
    return out;
}

std::vector<Stamp> decode_stamps(std::string_view bytes) {
    std::vector<Stamp> stamps;
    NumberReader in(bytes);
    for (Stamp previous = 0; !in.done();) stamps.push_back(previous += in.number());
    return stamps;
}

std::vector<Stamp> take_early(std::vector<Stamp>& stamps) {
    const auto first = std::ranges::lower_bound(stamps, early_bit);
    std::vector<Stamp> early(first, stamps.end());
    stamps.erase(first, stamps.end());
    for (Stamp& stamp : early) stamp &= ~early_bit;
    return early;
}

std::string drop_early_stamps(std::string_view beyond) {
    std::vector<Stamp> stamps = decode_stamps(beyond);
    take_early(stamps);
    return encode_stamps(stamps);
}

}  // namespace pulsegate
