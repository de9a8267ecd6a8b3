#include "server/base/text/url.h"

#include "protocol/utf8.h"

namespace pulsegate {

std::string bracketed(std::string_view host) {
    const bool v6 = host.find(':') != std::string_view::npos;
    return v6 ? '[' + std::string(host) + ']' : std::string(host);
}

std::optional<std::string> percent_decoded(std::string_view text) {
    const auto hex = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        if (c >= 'A' && c <= 'F') return c - 'A' + 10;
        return -1;
    };
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
            return std::nullopt;
        out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
        i += 2;
    }
    if (!valid_utf8(out)) return std::nullopt;
    return out;
}

std::string HttpUrl::authority() const {
    const bool usual = port == (tls ? 443 : 80);
    return usual ? bracketed(host) : bracketed(host) + ":" + std::to_string(port);
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (const char each : text) {
        const auto byte = static_cast<unsigned char>(each);
        const bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                              (byte >= '0' && byte <= '9') ||
                              std::string_view("-._~").find(each) != std::string_view::npos;
        if (is_plain) {
            encoded += each;
            continue;
        }
        encoded += '%';
        encoded += digits[byte >> 4];
        encoded += digits[byte & 0xF];
    }
    return encoded;
}

std::string path_segment_of(std::string_view name) {
    return percent_encoded(name) + (name == "." || name == ".." ? ";" : "");
}

}  // namespace pulsegate
