#include "protocol/websocket.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "protocol/utf8.h"
#include "protocol/writer.h"

namespace pulsegate {

namespace {

constexpr std::uint8_t final_bit = 0x80;
constexpr std::uint8_t reserved_bits = 0x70;
constexpr std::uint8_t opcode_bits = 0x0F;
constexpr std::uint8_t control_bit = 0x08;
constexpr std::uint8_t mask_bit = 0x80;
constexpr std::uint8_t size_bits = 0x7F;

constexpr std::uint8_t two_byte_size = 126;
constexpr std::uint8_t eight_byte_size = 127;
constexpr std::uint64_t largest_control = 125;

using Mask = std::array<std::uint8_t, 4>;

struct Fault {
    CloseCode code = CloseCode::no_status;
    const char* cause = nullptr;
};

constexpr Fault broken(const char* cause) { return {CloseCode::protocol_error, cause}; }

std::uint64_t big_endian(Bytes bytes) {
    std::uint64_t value = 0;
    for (const std::uint8_t byte : bytes) value = value << 8 | byte;
    return value;
}

bool is_control(std::uint8_t first) { return first & control_bit; }

/// What the first byte of a header says against it.
Fault fault_of_first(std::uint8_t byte, bool inside_message) {
    if (byte & reserved_bits) return broken("a reserved bit is set");
    const auto opcode = static_cast<Opcode>(byte & opcode_bits);
    switch (opcode) {
        case Opcode::close:
        case Opcode::ping:
        case Opcode::pong:
            if (!(byte & final_bit)) return broken("a control frame is fragmented");
            return {};
        case Opcode::continuation:
            if (!inside_message) return broken("a continuation continues nothing");
            return {};
        case Opcode::text:
        case Opcode::binary:
            if (inside_message) return broken("a message begins inside another");
            // MQTT 5.0, section 6: MQTT travels in binary frames alone.
            if (opcode == Opcode::text)
                return {CloseCode::unsupported_data, "a text frame can't carry MQTT"};
            return {};
    }
    return broken("the opcode is reserved");
}

Fault fault_of_second(std::uint8_t first, std::uint8_t second) {
    if (!(second & mask_bit)) return broken("a client's frame is not masked");
    if (is_control(first) && (second & size_bits) > largest_control)
        return broken("a control frame is too large");
    return {};
}

Fault fault_of_size(std::uint64_t payload_size, std::size_t bytes, std::uint64_t max_frame_size) {
    if (payload_size >> 63) return broken("a length has its highest bit set");
    if ((bytes == 2 && payload_size < two_byte_size) || (bytes == 8 && payload_size <= 0xFFFF))
        return broken("a length is longer than needed");
    if (payload_size > max_frame_size) return {CloseCode::too_large, "a frame is too large"};
    return {};
}

/// A frame's header, as far as it has arrived.
struct WebSocketHeader {
    std::size_t size = 0;  ///< 0: more bytes are needed
    std::uint64_t payload_size = 0;
    Opcode opcode = Opcode::continuation;
    bool control = false;
    bool final = false;
    Mask mask{};
    Fault fault;
};

WebSocketHeader read_header(Bytes in, bool inside_message, std::uint64_t max_frame_size) {
    WebSocketHeader header;
    if (in.empty()) return header;
    header.fault = fault_of_first(in[0], inside_message);
    if (header.fault.cause || in.size() < 2) return header;
    header.fault = fault_of_second(in[0], in[1]);
    if (header.fault.cause) return header;

    const std::uint8_t short_size = in[1] & size_bits;
    const std::size_t more = short_size == two_byte_size     ? 2
                             : short_size == eight_byte_size ? 8
                                                             : 0;
    const std::size_t size = 2 + more + header.mask.size();
    if (in.size() < size) return header;

    header.size = size;
    header.payload_size = more ? big_endian(in.subspan(2, more)) : short_size;
    header.opcode = static_cast<Opcode>(in[0] & opcode_bits);
    header.control = is_control(in[0]);
    header.final = in[0] & final_bit;
    std::ranges::copy(in.subspan(2 + more, header.mask.size()), header.mask.begin());
    if (!header.control) header.fault = fault_of_size(header.payload_size, more, max_frame_size);
    return header;
}

/// Writes from the front, so `to` may be `from` or anywhere before it.
void unmask(const std::uint8_t* from, std::size_t size, std::uint8_t* to, const Mask& mask) {
    const Mask twice[2] = {mask, mask};
    std::uint64_t wide_mask = 0;
    std::memcpy(&wide_mask, twice, sizeof wide_mask);

    std::size_t at = 0;
    for (; size - at >= sizeof wide_mask; at += sizeof wide_mask) {
        std::uint64_t block = 0;
        std::memcpy(&block, from + at, sizeof block);
        block ^= wide_mask;
        std::memcpy(to + at, &block, sizeof block);
    }
    for (; at < size; ++at) to[at] = from[at] ^ mask[at % mask.size()];
}

/// The mask as it stands after so many bytes.
Mask turned(const Mask& mask, std::size_t bytes) {
    Mask result;
    for (std::size_t i = 0; i < mask.size(); ++i) result[i] = mask[(bytes + i) % mask.size()];
    return result;
}

/// RFC 6455, section 7.4, and the codes registered since: 1004 to 1006 and 1015 are never sent.
bool may_be_sent(std::uint64_t code) {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/// Here, unlike in MQTT, U+0000 is a character like any other.
bool valid_reason(std::string_view reason) {
    for (;;) {
        const auto zero = reason.find('\0');
        if (!valid_utf8(reason.substr(0, zero))) return false;
        if (zero == std::string_view::npos) return true;
        reason.remove_prefix(zero + 1);
    }
}

Unframed::Event bad(Unframed& result, Fault fault) {
    result.code = fault.code;
    result.cause = fault.cause;
    return Unframed::Event::bad;
}

Unframed::Event closed(Unframed& result, Bytes body) {
    if (body.empty()) return Unframed::Event::close;
    if (body.size() == 1) return bad(result, broken("a close code is cut short"));

    const std::uint64_t code = big_endian(body.first(2));
    if (!may_be_sent(code)) return bad(result, broken("a close code is not allowed"));
    const Bytes reason = body.subspan(2);
    if (!valid_reason(as_text(reason)))
        return bad(result, {CloseCode::invalid_payload, "a close reason is not valid UTF-8"});

    result.code = static_cast<CloseCode>(code);
    result.body = reason;
    return Unframed::Event::close;
}

Unframed::Event control(Unframed& result, Opcode opcode, Bytes body) {
    if (opcode == Opcode::close) return closed(result, body);
    result.body = body;
    return opcode == Opcode::ping ? Unframed::Event::ping : Unframed::Event::pong;
}

bool ends(Unframed::Event event) {
    return event == Unframed::Event::close || event == Unframed::Event::bad;
}

}  // namespace

Unframed Unframer::next(std::span<std::uint8_t> in, std::uint8_t* to,
                        std::uint64_t max_frame_size) {
    Unframed result;
    if (!over_) result.event = read(in, to, max_frame_size, result);
    if (ends(result.event)) over_ = true;
    if (over_) result.consumed = in.size();
    return result;
}

Unframed::Event Unframer::read(std::span<std::uint8_t> in, std::uint8_t* to,
                               std::uint64_t max_frame_size, Unframed& result) {
    for (;;) {
        const std::size_t arrived = take_payload(in.subspan(result.consumed), to + result.payload);
        result.payload += arrived;
        result.consumed += arrived;
        if (left_ > 0) return Unframed::Event::none;

        const auto rest = in.subspan(result.consumed);
        const WebSocketHeader header = read_header(rest, inside_message_, max_frame_size);
        if (header.fault.cause) return bad(result, header.fault);
        if (header.size == 0) return Unframed::Event::none;

        if (header.control) {
            const auto size = static_cast<std::size_t>(header.payload_size);
            if (rest.size() - header.size < size) return Unframed::Event::none;
            const auto body = rest.subspan(header.size, size);
            unmask(body.data(), size, body.data(), header.mask);
            result.consumed += header.size + size;
            return control(result, header.opcode, body);
        }

        // A client may not keep us busy for ever with frames that say nothing.
        empty_frames_ = header.payload_size == 0 ? empty_frames_ + 1 : 0;
        if (empty_frames_ > most_empty_frames)
            return bad(result, {CloseCode::policy_violation, "too many frames are empty"});
        left_ = header.payload_size;
        mask_ = header.mask;
        inside_message_ = !header.final;
        result.consumed += header.size;
    }
}

std::size_t Unframer::take_payload(Bytes in, std::uint8_t* to) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, in.size()));
    unmask(in.data(), size, to, mask_);
    mask_ = turned(mask_, size);
    left_ -= size;
    return size;
}

FrameHeader::FrameHeader(Opcode opcode, std::uint64_t size) {
    bytes_[0] = final_bit | static_cast<std::uint8_t>(opcode);
    if (size < two_byte_size) {
        bytes_[1] = static_cast<std::uint8_t>(size);
        return;
    }
    const std::uint8_t more = size <= 0xFFFF ? 2 : 8;
    bytes_[1] = more == 2 ? two_byte_size : eight_byte_size;
    size_ += more;
    for (std::size_t i = size_ - 1u; i > 1; --i, size >>= 8)
        bytes_[i] = static_cast<std::uint8_t>(size);
}

void append_pong(Buffer& out, Bytes body) {
    assert(body.size() <= largest_control);
    out += as_text(frame_header(Opcode::pong, body.size()).bytes());
    out += as_text(body);
}

void append_ping(Buffer& out) { out += as_text(frame_header(Opcode::ping, 0).bytes()); }

void append_close(Buffer& out, CloseCode code, std::string_view reason) {
    if (code == CloseCode::no_status) {
        assert(reason.empty());
        out += as_text(frame_header(Opcode::close, 0).bytes());
        return;
    }
    const std::size_t size = 2 + reason.size();
    assert(size <= largest_control);
    out += as_text(frame_header(Opcode::close, size).bytes());
    put_u16(out, static_cast<unsigned>(code));
    out += reason;
}

}  // namespace pulsegate
