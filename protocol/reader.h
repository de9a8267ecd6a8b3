#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/bytes.h"
#include "protocol/decode_error.h"
#include "protocol/utf8.h"

namespace pulsegate {

/// The error of a read, in terms of the reader's owner.
struct ReadCauses {
    const char* too_short = "ends too early";
    const char* too_long = "has bytes after its end";
    const char* not_utf8 = "a text is not valid UTF-8";
    const char* bad_varint = "a variable byte integer is malformed";
    const char* control_character = "a name has a control character";
};
inline constexpr ReadCauses general_causes;

/// Reads the data types of MQTT (section 1.5) from the front of some bytes. The first failure is
/// kept. After it, there is nothing left to read, and every value is zero or empty. So the caller
/// reads everything and checks once.
class Reader {
public:
    explicit Reader(Bytes in, const ReadCauses& causes = general_causes)
        : at_(in.data()), end_(in.data() + in.size()), causes_(causes) {}

    std::uint8_t u8() { return has(1) ? *at_++ : 0; }

    std::uint16_t u16() {
        if (!has(2)) return 0;
        at_ += 2;
        return static_cast<std::uint16_t>(at_[-2] << 8 | at_[-1]);
    }

    std::uint32_t u32() {
        const std::uint32_t high = u16();
        return high << 16 | u16();
    }

    /// Refuses a fifth byte, and more bytes than the value needs.
    std::uint32_t varint() {
        std::uint32_t value = 0;
        for (unsigned shift = 0; shift < 28; shift += 7) {
            const std::uint8_t byte = u8();
            value |= static_cast<std::uint32_t>(byte & 0x7F) << shift;
            if (byte & 0x80) continue;
            if (byte == 0 && shift > 0) malformed(causes_.bad_varint);
            return failed() ? 0 : value;
        }
        malformed(causes_.bad_varint);
        return 0;
    }

    std::string_view binary() { return as_text(take(u16())); }

    std::string_view text() {
        const std::string_view text = binary();
        if (valid_utf8(text)) return text;
        malformed(causes_.not_utf8);
        return {};
    }

    /// A text that appears in logs and lists: a topic, a filter or a user name.
    std::string_view name() {
        const std::string_view name = text();
        if (!has_control_character(name)) return name;
        malformed(causes_.control_character);
        return {};
    }

    Bytes take(std::size_t size) {
        if (!has(size)) return {};
        at_ += size;
        return {at_ - size, size};
    }

    Bytes rest() { return take(left()); }

    std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
    bool more() const { return at_ != end_; }

    void fail(DecodeError error) {
        if (!failed()) error_ = error;
        at_ = end_;
    }
    void malformed(const char* cause) { fail({Reason::malformed_packet, cause}); }
    void protocol_error(const char* cause) { fail({Reason::protocol_error, cause}); }

    /// Fails if bytes are left.
    void finish() {
        if (more()) malformed(causes_.too_long);
    }

    bool failed() const { return error_.cause != nullptr; }
    const DecodeError& error() const { return error_; }

private:
    bool has(std::size_t size) {
        if (left() >= size) return true;
        malformed(causes_.too_short);
        return false;
    }

    const std::uint8_t* at_;
    const std::uint8_t* end_;
    const ReadCauses& causes_;
    DecodeError error_{Reason::success, nullptr};
};

}  // namespace pulsegate
