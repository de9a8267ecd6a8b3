#include "loadgen/lab/frames.h"

#include <utility>

namespace pulsegate::load {

namespace {

constexpr std::size_t head = 5;

void append_u32(std::string& out, std::uint32_t number) {
    for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift & 0xff);
}

std::uint32_t u32_of(std::string_view bytes) {
    std::uint32_t number = 0;
    for (std::size_t at = 0; at < 4; ++at)
        number = number << 8 | static_cast<std::uint8_t>(bytes[at]);
    return number;
}

bool is_kind(char kind) { return kind == 'J' || kind == 'F' || kind == 'T'; }

}  // namespace

void append_frame(std::string& out, FrameKind kind, std::string_view body) {
    append_u32(out, static_cast<std::uint32_t>(body.size()));
    out += static_cast<char>(kind);
    out += body;
}

void FrameReader::add(Bytes bytes) {
    if (read_ > 0 && read_ == bytes_.size()) {
        bytes_.clear();
        read_ = 0;
    }
    bytes_ += as_text(bytes);
}

std::optional<Frame> FrameReader::next() {
    const auto rest = std::string_view(bytes_).substr(read_);
    if (broken_ || rest.size() < head) return {};
    const auto size = u32_of(rest);
    if (size > most_ || !is_kind(rest[4])) {
        broken_ = true;
        return {};
    }
    if (rest.size() < head + size) {
        // Keeps what follows in front, so that a long stream of frames takes no more than one.
        bytes_.erase(0, std::exchange(read_, 0));
        return {};
    }
    Frame frame{static_cast<FrameKind>(rest[4]), std::string(rest.substr(head, size))};
    read_ += head + size;
    return frame;
}

std::optional<std::uint32_t> receiver_of(std::string_view flows) {
    if (flows.size() < 4) return {};
    return u32_of(flows);
}

}  // namespace pulsegate::load
