#include "tests/support/framing_check.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "protocol/proxy.h"
#include "tests/support/codec_check.h"

namespace pulsegate {

namespace {

std::string number(CloseCode code) { return std::to_string(static_cast<unsigned>(code)); }

const char* broken_proxy_promise(Bytes stream) {
    using Status = ProxyHeader::Status;
    const ProxyHeader whole = proxy_header(ExactCopy(stream).bytes());
    if (whole.status == Status::bad && !whole.cause) return "a bad PROXY header has a cause";
    if (whole.status == Status::incomplete && stream.size() >= longest_proxy_block)
        return "a PROXY header is complete or bad in the end";
    if (whole.status != Status::complete) return nullptr;
    if (whole.size > stream.size()) return "a complete PROXY header has arrived";

    for (std::size_t size = 0; size < whole.size; ++size) {
        const ProxyHeader cut = proxy_header(ExactCopy(stream.first(size)).bytes());
        if (cut.status != Status::incomplete) return "a PROXY header cut short is incomplete";
        if (cut.size != 0 && (cut.size <= size || cut.size > whole.size))
            return "an incomplete PROXY header tells truly what it needs";
    }
    const ProxyHeader alone = proxy_header(ExactCopy(stream.first(whole.size)).bytes());
    if (alone.status != Status::complete || alone.size != whole.size ||
        alone.source != whole.source)
        return "a PROXY header does not depend on what follows it";
    return nullptr;
}

}  // namespace

void FrameReader::read(std::string_view bytes, std::size_t before) {
    const std::string unread = rest_ + std::string(bytes);
    std::vector<std::uint8_t> buffer(before + unread.size());
    std::ranges::copy(as_bytes(unread), buffer.begin() + static_cast<std::ptrdiff_t>(before));

    std::uint8_t* to = buffer.data();
    std::span<std::uint8_t> raw = std::span(buffer).subspan(before);
    for (;;) {
        const Unframed result = unframer_.next(raw, to, max_frame_size_);
        if (result.payload > result.consumed || result.consumed > raw.size())
            throw std::logic_error("more was read than there is");
        note(as_text({to, result.payload}));
        note(result);
        to += result.payload;
        raw = raw.subspan(result.consumed);
        if (result.event == Unframed::Event::none) break;
    }
    rest_ = as_text(raw);
    if (rest_.size() > Unframer::longest_rest) throw std::logic_error("too much was kept");
}

void FrameReader::read_bytewise(std::string_view bytes) {
    for (const char& byte : bytes) read({&byte, 1});
}

void FrameReader::read_cut(std::string_view bytes, std::size_t longest, std::mt19937& random) {
    while (!bytes.empty()) {
        const std::size_t size = std::min(bytes.size(), 1 + random() % longest);
        read(bytes.substr(0, size), random() % 20);
        bytes.remove_prefix(size);
    }
}

void FrameReader::note(std::string_view payload) {
    if (payload.empty()) return;
    if (!inside_payload_ && !transcript_.empty()) transcript_ += ' ';
    transcript_ += payload;
    inside_payload_ = true;
}

void FrameReader::note(const Unframed& result) {
    using Event = Unframed::Event;
    if (result.event == Event::none) return;
    if (!transcript_.empty()) transcript_ += ' ';
    inside_payload_ = false;
    const std::string body(as_text(result.body));
    switch (result.event) {
        case Event::none: break;
        case Event::ping: transcript_ += "ping(" + body + ")"; break;
        case Event::pong: transcript_ += "pong(" + body + ")"; break;
        case Event::close:
            transcript_ += "close(" + number(result.code) + (body.empty() ? "" : " ") + body + ")";
            break;
        case Event::bad:
            transcript_ += "bad(" + number(result.code) + " " + result.cause + ")";
            break;
    }
}

const char* broken_framing_promise(Bytes stream, std::uint64_t max_frame_size) {
    const std::string_view text = as_text(stream);
    FrameReader whole(max_frame_size);
    whole.read(text);
    FrameReader bytewise(max_frame_size);
    bytewise.read_bytewise(text);
    if (whole.transcript() != bytewise.transcript()) return "frames may come byte by byte";
    if (whole.kept() != bytewise.kept()) return "the same is kept, however it came";
    std::mt19937 random(static_cast<unsigned>(stream.size()));
    FrameReader cut(max_frame_size);
    cut.read_cut(text, 40, random);
    if (whole.transcript() != cut.transcript()) return "frames may be cut anywhere";

    return broken_proxy_promise(stream);
}

}  // namespace pulsegate
