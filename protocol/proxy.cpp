#include "protocol/proxy.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "protocol/reader.h"

namespace pulsegate {

namespace {

using namespace std::string_view_literals;
using Status = ProxyHeader::Status;

constexpr auto line_signature = "PROXY "sv;
constexpr auto block_signature = "\r\n\r\n\0\r\nQUIT\n"sv;
constexpr std::size_t block_header_size = 16;

ProxyHeader bad(const char* cause) {
    return {.status = Status::bad, .source = std::nullopt, .cause = cause};
}

ProxyHeader incomplete(std::size_t size) {
    return {.status = Status::incomplete, .size = size, .source = std::nullopt};
}

ProxyHeader complete(std::size_t size, std::optional<ProxySource> source) {
    return {.status = Status::complete, .size = size, .source = source};
}

bool begins_like(std::string_view text, std::string_view signature) {
    const std::size_t size = std::min(text.size(), signature.size());
    return text.substr(0, size) == signature.substr(0, size);
}

/// Digits and nothing else; a leading zero might be meant to be octal.
template <class Number>
std::optional<Number> decimal(std::string_view text) {
    if (text.size() > 1 && text[0] == '0') return std::nullopt;
    Number value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

std::optional<std::uint16_t> hexadecimal(std::string_view text) {
    if (text.size() > 4) return std::nullopt;
    std::uint16_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

/// Takes the text up to the separator off the front, and the separator with it.
std::string_view take_until(std::string_view& text, char separator) {
    const auto at = text.find(separator);
    const std::string_view part = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return part;
}

std::optional<Ipv4> ipv4(std::string_view text) {
    if (std::ranges::count(text, '.') != 3) return std::nullopt;
    Ipv4 address{};
    for (std::uint8_t& byte : address) {
        const auto number = decimal<std::uint8_t>(take_until(text, '.'));
        if (!number) return std::nullopt;
        byte = *number;
    }
    return address;
}

/// The groups on one side of a `::`, or all of them.
struct Ipv6Groups {
    Ipv6 bytes{};
    std::size_t size = 0;

    bool add(Bytes more) {
        if (bytes.size() - size < more.size()) return false;
        std::ranges::copy(more, bytes.begin() + static_cast<std::ptrdiff_t>(size));
        size += more.size();
        return true;
    }
};

/// "2001:db8:7"; with `last`, the end may be an IPv4 address (RFC 4291, section 2.2).
std::optional<Ipv6Groups> ipv6_groups(std::string_view text, bool last) {
    Ipv6Groups groups;
    if (text.empty()) return groups;
    for (;;) {
        const bool more = text.find(':') != std::string_view::npos;
        const std::string_view part = take_until(text, ':');
        if (const auto v4 = last && !more ? ipv4(part) : std::nullopt) {
            if (!groups.add(*v4)) return std::nullopt;
        } else {
            const auto group = hexadecimal(part);
            if (!group) return std::nullopt;
            const std::uint8_t bytes[] = {static_cast<std::uint8_t>(*group >> 8),
                                          static_cast<std::uint8_t>(*group)};
            if (!groups.add(bytes)) return std::nullopt;
        }
        if (!more) return groups;
    }
}

std::optional<Ipv6> ipv6(std::string_view text) {
    const auto gap = text.find("::");
    const bool has_gap = gap != std::string_view::npos;
    const auto head = ipv6_groups(text.substr(0, gap), !has_gap);
    if (!head) return std::nullopt;
    if (!has_gap)
        return head->size == head->bytes.size() ? std::optional(head->bytes) : std::nullopt;

    const auto tail = ipv6_groups(text.substr(gap + 2), true);
    // A gap stands for one group at least.
    if (!tail || head->size + tail->size > head->bytes.size() - 2) return std::nullopt;
    Ipv6 address = head->bytes;
    std::copy_n(tail->bytes.begin(), tail->size,
                address.end() - static_cast<std::ptrdiff_t>(tail->size));
    return address;
}

std::optional<std::variant<Ipv4, Ipv6>> address(std::string_view text, bool v6) {
    if (v6) return ipv6(text);
    return ipv4(text);
}

/// "TCP4 192.0.2.1 198.51.100.7 40001 1883", without what is around it.
ProxyHeader read_line(std::string_view line, std::size_t size) {
    if (line == "UNKNOWN" || line.starts_with("UNKNOWN ")) return complete(size, std::nullopt);

    const std::string_view family = take_until(line, ' ');
    if (family != "TCP4" && family != "TCP6") return bad("PROXY names no known protocol");
    if (std::ranges::count(line, ' ') != 3) return bad("PROXY needs two addresses and two ports");

    const bool v6 = family == "TCP6";
    const auto from = address(take_until(line, ' '), v6);
    const auto to = address(take_until(line, ' '), v6);
    if (!from || !to) return bad("a PROXY address is malformed");
    const auto from_port = decimal<std::uint16_t>(take_until(line, ' '));
    const auto to_port = decimal<std::uint16_t>(line);
    if (!from_port || !to_port) return bad("a PROXY port is malformed");
    return complete(size, ProxySource{*from, *from_port});
}

ProxyHeader version_1(std::string_view in) {
    const std::string_view longest = in.substr(0, longest_proxy_line);
    const auto end = longest.find("\r\n");
    if (end != std::string_view::npos)
        return read_line(longest.substr(line_signature.size(), end - line_signature.size()),
                         end + 2);
    if (in.size() >= longest_proxy_line) return bad("a PROXY line is too long");
    return incomplete(0);
}

template <class Address>
ProxySource source(Reader& in) {
    Address from{};
    std::ranges::copy(in.take(from.size()), from.begin());
    in.take(from.size());  // where to: we know that ourselves
    return {from, in.u16()};
}

/// The addresses of a block, at its front.
ProxyHeader read_block(std::uint8_t command, std::uint8_t family, Bytes block) {
    enum : std::uint8_t { local = 0x20, proxy = 0x21, tcp4 = 0x11, tcp6 = 0x21 };
    const std::size_t size = block_header_size + block.size();
    // Whatever else a proxy says when it speaks for itself means nothing.
    if (command == local) return complete(size, std::nullopt);
    if (command != proxy) return bad("a PROXY block has an unknown version or command");
    // Unknown, IPv4, IPv6 and Unix; and unknown, streams and datagrams.
    if (family >> 4 > 3 || (family & 0x0F) > 2) return bad("a PROXY block is of no known family");

    static constexpr ReadCauses causes{.too_short = "a PROXY block is too short for its addresses"};
    Reader in(block, causes);
    std::optional<ProxySource> from;
    if (family == tcp4) from = source<Ipv4>(in);
    if (family == tcp6) from = source<Ipv6>(in);
    if (from) in.u16();  // the other port
    return in.failed() ? bad(in.error().cause) : complete(size, from);
}

ProxyHeader version_2(Bytes in) {
    if (in.size() < block_header_size) return incomplete(block_header_size);
    Reader header(in.subspan(block_signature.size(), block_header_size - block_signature.size()));
    const std::uint8_t command = header.u8();
    const std::uint8_t family = header.u8();
    const std::size_t size = block_header_size + header.u16();
    if (size > longest_proxy_block) return bad("a PROXY block is too long");
    if (in.size() < size) return incomplete(size);
    return read_block(command, family, in.subspan(block_header_size, size - block_header_size));
}

}  // namespace

ProxyHeader proxy_header(Bytes in) {
    const std::string_view text = as_text(in);
    if (begins_like(text, block_signature))
        return text.size() < block_signature.size() ? incomplete(0) : version_2(in);
    if (begins_like(text, line_signature))
        return text.size() < line_signature.size() ? incomplete(0) : version_1(text);
    return bad("the connection begins without a PROXY header");
}

}  // namespace pulsegate
