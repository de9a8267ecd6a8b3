#include "tests/support/wire.h"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace pulsegate {

namespace {

std::string big_endian(std::uint64_t value, int size) {
    std::string out;
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8)
        out.push_back(static_cast<char>(value >> shift));
    return out;
}

std::string varint(std::uint64_t value) {
    std::string out;
    do {
        const auto seven = static_cast<char>(value & 0x7F);
        value >>= 7;
        out.push_back(static_cast<char>(seven | (value ? 0x80 : 0)));
    } while (value);
    return out;
}

class Notation {
public:
    explicit Notation(std::string_view notation) : all_(notation), rest_(notation) {}

    std::string bytes() {
        std::string out;
        do out += packet();
        while (take('|'));
        if (!rest_.empty()) fail("a ] too many");
        return out;
    }

private:
    std::string packet() {
        const std::string head = run();
        if (!counts_) return head;
        counts_ = false;
        const std::string body = run();
        if (counts_) fail("two r in one packet");
        return head + varint(body.size()) + body;
    }

    /// Everything up to an `r`, a `|`, a `]` or the end.
    std::string run() {
        std::string out;
        for (;;) {
            skip_spaces();
            if (rest_.empty() || rest_[0] == '|' || rest_[0] == ']') return out;
            if (take('[')) {
                out += list();
            } else if (take('r')) {
                if (!at_digit()) {
                    counts_ = true;
                    return out;
                }
                out += varint(number());
            } else {
                out += token();
            }
        }
    }

    std::string list() {
        const std::string inside = run();
        if (counts_) fail("r inside [ ]");
        if (!take(']')) fail("a ] is missing");
        return varint(inside.size()) + inside;
    }

    std::string token() {
        if (take('k')) return big_endian(number(), 2);
        if (take('w')) return big_endian(number(), 4);
        if (take('s')) {
            if (at_digit()) return big_endian(number(), 2);
            const std::string inside = repeated(literal());
            return big_endian(inside.size(), 2) + inside;
        }
        return repeated(rest_[0] == '\'' ? literal() : hexadecimal());
    }

    std::string repeated(const std::string& once) {
        if (!take('*')) return once;
        std::string out;
        for (auto times = number(); times > 0; --times) out += once;
        return out;
    }

    std::string literal() {
        if (!take('\'')) fail("a text is missing");
        const auto end = rest_.find('\'');
        if (end == std::string_view::npos) fail("a ' is missing");
        const std::string inside(rest_.substr(0, end));
        rest_.remove_prefix(end + 1);
        return inside;
    }

    std::string hexadecimal() {
        std::string out;
        while (rest_.size() >= 2 && std::isxdigit(static_cast<unsigned char>(rest_[0]))) {
            unsigned byte = 0;
            const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 2, byte, 16);
            if (error != std::errc{} || end != rest_.data() + 2) fail("half a byte");
            out.push_back(static_cast<char>(byte));
            rest_.remove_prefix(2);
        }
        if (out.empty()) fail("unknown token");
        return out;
    }

    std::uint64_t number() {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        if (error != std::errc{}) fail("a number is missing");
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }

    bool at_digit() const {
        return !rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_[0]));
    }

    bool take(char c) {
        if (rest_.empty() || rest_[0] != c) return false;
        rest_.remove_prefix(1);
        return true;
    }

    void skip_spaces() {
        while (take(' ') || take('\n')) {
        }
    }

    [[noreturn]] void fail(const char* cause) const {
        throw std::invalid_argument("wire notation: " + std::string(cause) + " at character " +
                                    std::to_string(all_.size() - rest_.size()) + " of \"" +
                                    std::string(all_) + '"');
    }

    std::string_view all_;
    std::string_view rest_;
    bool counts_ = false;  ///< an `r` waits for what it counts
};

}  // namespace

std::string wire(std::string_view notation) { return Notation(notation).bytes(); }

std::string hex(std::string_view bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (const char c : bytes) {
        if (!out.empty()) out.push_back(' ');
        const auto byte = static_cast<unsigned char>(c);
        out.push_back(digits[byte >> 4]);
        out.push_back(digits[byte & 0x0F]);
    }
    return out;
}

}  // namespace pulsegate
