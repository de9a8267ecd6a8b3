#include "loadgen/net/websocket.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "protocol/writer.h"

namespace pulsegate::load {

namespace {

constexpr std::uint8_t fin = 0x80;
constexpr std::uint8_t reserved = 0x70;
constexpr std::uint8_t masked = 0x80;
constexpr std::size_t largest_control_body = 125;

// -- the request and its answer --

std::string base64_of(Bytes bytes) {
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL adds a zero
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                                     static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

/// RFC 6455, section 4.2.2.
std::string accept_value(const WebSocketNonce& nonce) {
    const std::string text = base64_of(nonce) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr);
    return base64_of({digest, size});
}

char lower(char character) {
    return character >= 'A' && character <= 'Z' ? static_cast<char>(character + 32) : character;
}

bool same_word(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Whether a list separated by commas has the word.
bool lists(std::string_view list, std::string_view word) {
    for (;;) {
        const auto comma = list.find(',');
        if (same_word(trimmed(list.substr(0, comma)), word)) return true;
        if (comma == std::string_view::npos) return false;
        list.remove_prefix(comma + 1);
    }
}

/// The value of a header field, empty if there is none. The first line is passed over.
std::string_view field(std::string_view head, std::string_view name) {
    for (auto end = head.find("\r\n"); end != std::string_view::npos; end = head.find("\r\n")) {
        head.remove_prefix(end + 2);
        const auto line = head.substr(0, head.find("\r\n"));
        const auto colon = line.find(':');
        if (colon != std::string_view::npos && same_word(line.substr(0, colon), name))
            return trimmed(line.substr(colon + 1));
    }
    return {};
}

std::string fault_of_upgrade(std::string_view head, const WebSocketNonce& nonce) {
    if (!same_word(field(head, "Upgrade"), "websocket")) return "without 'Upgrade: websocket'";
    if (!lists(field(head, "Connection"), "upgrade")) return "without 'Connection: Upgrade'";
    if (field(head, "Sec-WebSocket-Accept") != accept_value(nonce))
        return "with the wrong Sec-WebSocket-Accept";
    if (field(head, "Sec-WebSocket-Protocol") != "mqtt") return "without the subprotocol 'mqtt'";
    if (!field(head, "Sec-WebSocket-Extensions").empty())
        return "with an extension that was not offered";
    return {};
}

// -- frames --

using Mask = std::array<char, 4>;

void append_masked(Buffer& out, std::string_view payload, const Mask& mask) {
    const std::size_t from = out.size();
    out += payload;
    for (std::size_t i = 0; i < payload.size(); ++i)
        out[from + i] = static_cast<char>(out[from + i] ^ mask[i % mask.size()]);
}

void append_size(Buffer& out, std::size_t size) {
    if (size <= largest_control_body) return put_u8(out, masked | static_cast<unsigned>(size));
    if (size <= 0xFFFF) {
        put_u8(out, masked | 126u);
        return put_u16(out, static_cast<unsigned>(size));
    }
    put_u8(out, masked | 127u);
    put_u32(out, static_cast<std::uint32_t>(static_cast<std::uint64_t>(size) >> 32));
    put_u32(out, static_cast<std::uint32_t>(size));
}

struct ServerHeader {
    std::size_t size = 0;  ///< 0: more bytes are needed
    std::uint64_t payload = 0;
    Opcode opcode = Opcode::continuation;
    bool final = false;
    bool control = false;
    const char* fault = nullptr;
};

const char* fault_of_start(std::uint8_t first, std::uint8_t second, bool inside_message) {
    if (first & reserved) return "a reserved bit of a WebSocket frame is set";
    if (second & masked) return "a frame of the server is masked";
    switch (static_cast<Opcode>(first & 0x0F)) {
        case Opcode::continuation:
            return inside_message ? nullptr : "a WebSocket continuation continues nothing";
        case Opcode::binary:
            return inside_message ? "a WebSocket message begins inside another" : nullptr;
        case Opcode::text: return "a WebSocket text frame can't carry MQTT";
        case Opcode::close:
        case Opcode::ping:
        case Opcode::pong:
            if (!(first & fin)) return "a WebSocket control frame is fragmented";
            return (second & 0x7F) > largest_control_body ? "a WebSocket control frame is too large"
                                                          : nullptr;
    }
    return "a WebSocket opcode is reserved";
}

ServerHeader header_of(Bytes in, bool inside_message) {
    ServerHeader header;
    if (in.size() < 2) return header;
    header.fault = fault_of_start(in[0], in[1], inside_message);
    if (header.fault) return header;

    const std::uint8_t short_size = in[1] & 0x7F;
    const std::size_t more = short_size == 126 ? 2 : short_size == 127 ? 8 : 0;
    if (in.size() < 2 + more) return header;
    header.payload = more ? 0 : short_size;
    for (const std::uint8_t byte : in.subspan(2, more)) header.payload = header.payload << 8 | byte;
    // RFC 6455, 5.2: the minimal number of bytes encodes the length.
    if (more > 0 && header.payload <= (more == 2 ? 125u : 65'535u)) {
        header.fault = "the length of a WebSocket frame takes more bytes than it needs";
        return header;
    }
    header.size = 2 + more;
    header.opcode = static_cast<Opcode>(in[0] & 0x0F);
    header.final = in[0] & fin;
    header.control = header.opcode >= Opcode::close;
    return header;
}

Unframed::Event event_of(Opcode opcode, Bytes body, Unframed& result) {
    result.body = body;
    if (opcode == Opcode::ping) return Unframed::Event::ping;
    if (opcode == Opcode::pong) return Unframed::Event::pong;
    if (body.size() >= 2) {
        result.code = static_cast<CloseCode>(body[0] << 8 | body[1]);
        result.body = body.subspan(2);
    }
    return Unframed::Event::close;
}

}  // namespace

std::string upgrade_request(std::string_view host, std::uint16_t port, std::string_view path,
                            const WebSocketNonce& nonce) {
    const bool ipv6 = host.find(':') != std::string_view::npos;
    std::string request = "GET ";
    request += path.empty() ? "/" : path;
    request += " HTTP/1.1\r\nHost: ";
    request += ipv6 ? "[" : "";
    request += host;
    request += ipv6 ? "]:" : ":";
    request += std::to_string(port);
    request += "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ";
    request += base64_of(nonce);
    request += "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
    return request;
}

UpgradeAnswer read_upgrade_answer(std::string_view received, const WebSocketNonce& nonce) {
    using Status = UpgradeAnswer::Status;
    const auto end = received.substr(0, longest_upgrade_answer).find("\r\n\r\n");
    if (end == std::string_view::npos) {
        if (received.size() < longest_upgrade_answer) return {};
        return {Status::bad, 0, "the answer to the WebSocket's request has no end"};
    }
    const std::string_view head = received.substr(0, end + 2);
    const std::string_view status = head.substr(0, head.find("\r\n"));
    // A proxy may refuse in HTTP/1.0.
    if (!status.starts_with("HTTP/1.")) return {Status::bad, 0, "the server speaks no HTTP/1.1"};
    if (!status.starts_with("HTTP/1.1 101"))
        return {Status::refused, 0, "no WebSocket: " + std::string(status)};
    if (std::string fault = fault_of_upgrade(head, nonce); !fault.empty())
        return {Status::bad, 0, "the server answered " + std::move(fault)};
    return {Status::accepted, end + 4, {}};
}

void append_frame(Buffer& out, Opcode opcode, std::string_view payload, std::uint32_t mask) {
    append_fragment(out, opcode, true, payload, mask);
}

void append_fragment(Buffer& out, Opcode opcode, bool last, std::string_view payload,
                     std::uint32_t mask) {
    Mask key;
    std::memcpy(key.data(), &mask, key.size());
    put_u8(out, (last ? fin : 0u) | static_cast<unsigned>(opcode));
    append_size(out, payload.size());
    out.append(key.data(), key.size());
    append_masked(out, payload, key);
}

Unframed ServerUnframer::next(std::span<std::uint8_t> in, std::uint8_t* to) {
    Unframed result;
    for (;;) {
        const auto arrived =
            static_cast<std::size_t>(std::min<std::uint64_t>(left_, in.size() - result.consumed));
        std::memmove(to + result.payload, in.data() + result.consumed, arrived);
        result.payload += arrived;
        result.consumed += arrived;
        left_ -= arrived;
        if (left_ > 0) return result;

        const Bytes rest = in.subspan(result.consumed);
        const ServerHeader header = header_of(rest, inside_message_);
        result.cause = header.fault;
        if (header.fault) result.event = Unframed::Event::bad;
        if (header.size == 0) return result;
        if (header.control) {
            const Bytes body = rest.subspan(header.size);
            if (body.size() < header.payload) return result;
            const auto size = static_cast<std::size_t>(header.payload);
            result.consumed += header.size + size;
            result.event = event_of(header.opcode, body.first(size), result);
            return result;
        }
        left_ = header.payload;
        inside_message_ = !header.final;
        result.consumed += header.size;
    }
}

}  // namespace pulsegate::load
