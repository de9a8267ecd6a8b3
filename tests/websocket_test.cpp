#include "protocol/websocket.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/framing_check.h"
#include "tests/support/sanitized.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

constexpr std::string_view rfc_mask = "\x37\xfa\x21\x3d";

std::string big_endian(std::uint64_t value, int size) {
    std::string out;
    for (int i = size - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> 8 * i));
    return out;
}

/// A client's frame: its first byte in hexadecimal, and its payload before it is masked.
std::string frame(std::string_view first, std::string_view payload,
                  std::string_view mask = rfc_mask) {
    std::string out = wire(first);
    if (payload.size() < 126)
        out += static_cast<char>(0x80 | payload.size());
    else if (payload.size() < 65'536)
        out += '\xfe' + big_endian(payload.size(), 2);
    else
        out += '\xff' + big_endian(payload.size(), 8);
    out += mask;
    for (std::size_t i = 0; i < payload.size(); ++i)
        out += static_cast<char>(payload[i] ^ mask[i % 4]);
    return out;
}

std::string closing(unsigned code, std::string_view reason = "") {
    return frame("88", big_endian(code, 2) + std::string(reason));
}

/// What becomes of the bytes, in one read and in one for each byte.
std::string outcome(std::string_view bytes, std::uint64_t max_frame_size = 1 << 20) {
    FrameReader whole(max_frame_size);
    whole.read(bytes);
    FrameReader bytewise(max_frame_size);
    bytewise.read_bytewise(bytes);
    CHECK(whole.transcript() == bytewise.transcript());
    CHECK(whole.kept() == bytewise.kept());
    return whole.transcript();
}

std::string outcome_of_wire(std::string_view notation) { return outcome(wire(notation)); }

std::string header(Opcode opcode, std::uint64_t size) {
    return hex(as_text(frame_header(opcode, size).bytes()));
}

}  // namespace

TEST_CASE("a masked frame gives its payload, as in RFC 6455, section 5.7") {
    CHECK(outcome_of_wire("82 85 37fa213d 7f9f4d5158") == "Hello");
}

TEST_CASE("a fragmented message gives the payload of all its frames") {
    CHECK(outcome(frame("02", "Hel") + frame("80", "lo")) == "Hello");
    CHECK(outcome(frame("02", "H") + frame("00", "el") + frame("00", "l") + frame("80", "o")) ==
          "Hello");
}

TEST_CASE("messages follow each other without a seam, as packets don't mind them") {
    CHECK(outcome(frame("82", "Hel") + frame("82", "lo") + frame("82", "!")) == "Hello!");
}

TEST_CASE("payload is moved to the front of the buffer, over its frames' headers") {
    std::string bytes = frame("82", "Hel") + frame("82", "lo") + wire("82");
    const std::span buffer(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size());
    Unframer unframer;
    const Unframed result = unframer.next(buffer, 100);
    CHECK(result.event == Unframed::Event::none);
    CHECK(result.payload == 5);
    CHECK(result.consumed == bytes.size() - 1);
    CHECK(bytes.starts_with("Hello"));
}

TEST_CASE("payload can be moved to where earlier payload ends") {
    std::string bytes = "Hel.." + frame("82", "lo");
    const std::span buffer(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size());
    Unframer unframer;
    CHECK(unframer.next(buffer.subspan(5), buffer.data() + 3, 100).payload == 2);
    CHECK(bytes.starts_with("Hello"));
}

TEST_CASE("the payload of an unfinished frame is handed out as it comes") {
    FrameReader reader;
    const std::string bytes = frame("82", "Hello");
    reader.read(bytes.substr(0, 8));
    CHECK(reader.transcript() == "He");
    CHECK(reader.kept() == 0);
    reader.read(bytes.substr(8));
    CHECK(reader.transcript() == "Hello");
}

TEST_CASE("an unfinished header or control frame is kept, and nothing else") {
    const std::string ping = frame("89", std::string(125, 'x'));
    FrameReader reader;
    reader.read(frame("82", "Hello") + ping.substr(0, ping.size() - 1));
    CHECK(reader.kept() == Unframer::longest_rest);
    CHECK(reader.transcript() == "Hello");
    reader.read(ping.substr(ping.size() - 1) + wire("82 ff 00000000 00010000 37fa21"));
    CHECK(reader.transcript() == "Hello ping(" + std::string(125, 'x') + ")");
    CHECK(reader.kept() == 13);
}

TEST_CASE("a control frame comes after the payload before it and before the payload after it") {
    CHECK(outcome(frame("82", "one") + frame("89", "p") + frame("82", "two") + frame("8a", "q") +
                  frame("82", "three")) == "one ping(p) two pong(q) three");
}

TEST_CASE("a control frame may stand between the fragments of a message") {
    CHECK(outcome(frame("02", "Hel") + frame("89", "p") + frame("80", "lo")) == "Hel ping(p) lo");
}

TEST_CASE("a ping gives the body to send back, of 0 to 125 bytes") {
    CHECK(outcome_of_wire("89 85 37fa213d 7f9f4d5158") == "ping(Hello)");
    CHECK(outcome_of_wire("8a 85 37fa213d 7f9f4d5158") == "pong(Hello)");
    CHECK(outcome(frame("89", "")) == "ping()");
    CHECK(outcome(frame("89", std::string(125, 'x'))) == "ping(" + std::string(125, 'x') + ")");
}

TEST_CASE("frames of every length of length are read") {
    for (const std::size_t size : {0, 1, 125, 126, 127, 65'535, 65'536, 200'000}) {
        CAPTURE(size);
        FrameReader reader;
        reader.read(frame("82", std::string(size, 'x')));
        CHECK(reader.transcript() == std::string(size, 'x'));
        CHECK(reader.kept() == 0);
    }
}

TEST_CASE("a frame may be as large as the limit, and no larger") {
    CHECK(outcome(frame("82", "Hello"), 5) == "Hello");
    CHECK(outcome(frame("82", "Hello"), 4) == "bad(1009 a frame is too large)");
    CHECK(outcome(frame("02", "Hell") + frame("80", "o"), 4) == "Hello");
    CHECK(outcome(frame("89", "Hello"), 4) == "ping(Hello)");
}

TEST_CASE("a frame that is too large is refused before its payload arrives") {
    CHECK(outcome_of_wire("82 ff 7fffffff ffffffff 00*4") == "bad(1009 a frame is too large)");
}

TEST_CASE("a length is written in as few bytes as it needs, and below 2^63") {
    const auto* longer = "bad(1002 a length is longer than needed)";
    CHECK(outcome_of_wire("82 fe 0000 00*4") == longer);
    CHECK(outcome_of_wire("82 fe 007d 00*4") == longer);
    CHECK(outcome_of_wire("82 ff 00000000 0000007e 00*4") == longer);
    CHECK(outcome_of_wire("82 ff 00000000 0000ffff 00*4") == longer);
    CHECK(outcome_of_wire("82 ff 80000000 00000000 00*4") ==
          "bad(1002 a length has its highest bit set)");
    CHECK(outcome_of_wire("82 ff ffffffff ffffffff 00*4") ==
          "bad(1002 a length has its highest bit set)");
}

TEST_CASE("a client masks its frames") {
    const auto* bare = "bad(1002 a client's frame is not masked)";
    CHECK(outcome_of_wire("82 05 'Hello'") == bare);
    CHECK(outcome_of_wire("89 00") == bare);
    CHECK(outcome_of_wire("88 02 03e8") == bare);
}

TEST_CASE("a reserved bit is refused, because no extension was agreed on") {
    for (const auto* first : {"92", "a2", "c2", "f2", "c9"})
        CHECK(outcome(wire(first)) == "bad(1002 a reserved bit is set)");
}

TEST_CASE("a reserved opcode is refused") {
    for (const auto* first : {"83", "84", "85", "86", "87", "8b", "8c", "8d", "8e", "8f", "03"})
        CHECK(outcome(wire(first)) == "bad(1002 the opcode is reserved)");
}

TEST_CASE("a text frame can't carry MQTT") {
    CHECK(outcome(frame("81", "Hello")) == "bad(1003 a text frame can't carry MQTT)");
    CHECK(outcome(frame("01", "Hel")) == "bad(1003 a text frame can't carry MQTT)");
}

TEST_CASE("a control frame is neither fragmented nor larger than 125 bytes") {
    CHECK(outcome(frame("09", "p")) == "bad(1002 a control frame is fragmented)");
    CHECK(outcome(frame("08", "")) == "bad(1002 a control frame is fragmented)");
    CHECK(outcome_of_wire("89 fe") == "bad(1002 a control frame is too large)");
    CHECK(outcome_of_wire("88 ff") == "bad(1002 a control frame is too large)");
}

TEST_CASE("a continuation continues a message that has begun") {
    const auto* nothing = "bad(1002 a continuation continues nothing)";
    CHECK(outcome(frame("80", "lo")) == nothing);
    CHECK(outcome(frame("82", "Hel") + frame("80", "lo")) == fmt::format("Hel {}", nothing));
    CHECK(outcome(frame("02", "a") + frame("80", "b") + frame("00", "c")) ==
          fmt::format("ab {}", nothing));
}

TEST_CASE("a message does not begin inside another") {
    const auto* inside = "Hel bad(1002 a message begins inside another)";
    CHECK(outcome(frame("02", "Hel") + frame("82", "lo")) == inside);
    CHECK(outcome(frame("02", "Hel") + frame("89", "") + frame("02", "lo")) ==
          "Hel ping() bad(1002 a message begins inside another)");
    CHECK(outcome(frame("02", "Hel") + frame("81", "lo")) == inside);
}

TEST_CASE("a close gives its code and its reason") {
    CHECK(outcome(frame("82", "Hello") + closing(1000, "bye")) == "Hello close(1000 bye)");
    CHECK(outcome(closing(1001)) == "close(1001)");
    CHECK(outcome(closing(1000, "\xe2\x9c\x93")) == "close(1000 \xe2\x9c\x93)");
    CHECK(outcome(closing(1000, std::string(123, 'x'))) ==
          "close(1000 " + std::string(123, 'x') + ")");
}

TEST_CASE("a close without a code counts as the code that says so") {
    CHECK(outcome(frame("88", "")) == "close(1005)");
}

TEST_CASE("a close code is one that may be sent") {
    for (const unsigned code : {1000, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999}) {
        CAPTURE(code);
        CHECK(outcome(closing(code)) == "close(" + std::to_string(code) + ")");
    }
    for (const unsigned code :
         {0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65'535}) {
        CAPTURE(code);
        CHECK(outcome(closing(code)) == "bad(1002 a close code is not allowed)");
    }
    CHECK(outcome(frame("88", "\x03")) == "bad(1002 a close code is cut short)");
}

TEST_CASE("a close reason is UTF-8, in which U+0000 is a character") {
    using namespace std::string_literals;
    const auto* bad = "bad(1007 a close reason is not valid UTF-8)";
    CHECK(outcome(closing(1000, "\xff")) == bad);
    CHECK(outcome(closing(1000, "\xed\xa0\x80")) == bad);
    CHECK(outcome(closing(1000, "ok \xe2\x9c")) == bad);
    CHECK(outcome(closing(1000, "a\0\xff"s)) == bad);
    CHECK(outcome(closing(1000, "a\0b\0"s)) == "close(1000 a\0b\0)"s);
}

TEST_CASE("after a close or a fault everything is discarded") {
    CHECK(outcome(closing(1000) + frame("82", "Hello") + wire("ff")) == "close(1000)");
    CHECK(outcome(wire("ff") + frame("82", "Hello")) == "bad(1002 a reserved bit is set)");
}

TEST_CASE("frames without payload are accepted until there are too many in a row") {
    std::string bytes;
    for (int i = 0; i < Unframer::most_empty_frames; ++i) bytes += frame("82", "");
    CHECK(outcome(bytes + frame("82", "x") + bytes) == "x");
    CHECK(outcome(bytes + frame("82", "")) == "bad(1008 too many frames are empty)");
    std::string fragments = frame("02", "");
    for (int i = 0; i < Unframer::most_empty_frames; ++i) fragments += frame("00", "");
    CHECK(outcome(fragments) == "bad(1008 too many frames are empty)");
}

TEST_CASE("payload is unmasked right from wherever it is, to wherever it goes") {
    std::string payload;
    for (int i = 0; i < 70; ++i) payload += static_cast<char>(i * 37);
    for (std::size_t size = 0; size <= payload.size(); ++size)
        for (std::size_t first = 0; first <= size; ++first)
            for (std::size_t before = 0; before < 3; ++before) {
                const std::string bytes = frame("82", payload.substr(0, size));
                FrameReader reader;
                reader.read(bytes.substr(0, 6 + first), before);
                reader.read(bytes.substr(6 + first), before);
                REQUIRE(reader.transcript() == payload.substr(0, size));
            }
}

TEST_CASE("a server's header is as short as the size allows") {
    CHECK(header(Opcode::binary, 0) == "82 00");
    CHECK(header(Opcode::binary, 5) == "82 05");
    CHECK(header(Opcode::binary, 125) == "82 7d");
    CHECK(header(Opcode::binary, 126) == "82 7e 00 7e");
    CHECK(header(Opcode::binary, 256) == "82 7e 01 00");
    CHECK(header(Opcode::binary, 65'535) == "82 7e ff ff");
    CHECK(header(Opcode::binary, 65'536) == "82 7f 00 00 00 00 00 01 00 00");
    CHECK(header(Opcode::ping, 5) == "89 05");
}

TEST_CASE("a pong has the body of the ping") {
    Buffer out;
    append_pong(out, as_bytes("Hello"));
    CHECK(out == wire("8a 05 'Hello'"));
}

TEST_CASE("a close frame has a code and perhaps a reason, or nothing at all") {
    Buffer out;
    append_close(out, CloseCode::normal);
    append_close(out, CloseCode::protocol_error, "no");
    append_close(out, CloseCode::no_status);
    CHECK(out == wire("88 02 03e8 88 04 03ea 'no' 88 00"));
}

namespace {

/// A client that sends anything it may, and what that comes to.
class RandomClient {
public:
    explicit RandomClient(unsigned seed) : random_(seed) {}

    void send(int frames) {
        while (frames-- > 0) below(3) == 0 ? control() : data();
    }

    std::string sent;
    std::string transcript;

private:
    void data() {
        const bool last = below(2) == 0;
        const int opcode = inside_message_ ? 0 : 2;
        inside_message_ = !last;
        const std::string payload = bytes(size());
        append(opcode | (last ? 0x80 : 0), payload);
        if (payload.empty()) return;
        if (!inside_payload_ && !transcript.empty()) transcript += ' ';
        inside_payload_ = true;
        transcript += payload;
    }

    void control() {
        const bool ping = below(2) == 0;
        const std::string body = bytes(below(126));
        append(ping ? 0x89 : 0x8a, body);
        if (!transcript.empty()) transcript += ' ';
        inside_payload_ = false;
        transcript += (ping ? "ping(" : "pong(") + body + ")";
    }

    void append(int first, std::string_view payload) {
        sent += frame(hex(std::string(1, static_cast<char>(first))), payload, bytes(4));
    }

    std::size_t size() {
        switch (below(20)) {
            case 0: return 65'530 + below(12);
            case 1: return 120 + below(12);
            case 2: return 0;
            default: return below(60);
        }
    }

    std::string bytes(std::size_t size) {
        std::string out(size, '\0');
        for (char& byte : out) byte = static_cast<char>(random_());
        return out;
    }

    std::size_t below(std::size_t bound) { return random_() % bound; }

    std::mt19937 random_;
    bool inside_message_ = false;
    bool inside_payload_ = false;
};

}  // namespace

TEST_CASE("any sequence of frames, cut anywhere, gives its payload and events in order") {
    std::mt19937 random(6455);
    for (unsigned seed = 0; seed < (sanitized ? 100 : 400); ++seed) {
        CAPTURE(seed);
        RandomClient client(seed);
        client.send(30);
        for (const std::size_t longest : {3, 50, 5'000, 500'000}) {
            if (longest == 3 && client.sent.size() > 20'000) continue;
            FrameReader reader;
            reader.read_cut(client.sent, longest, random);
            REQUIRE(reader.transcript() == client.transcript);
            REQUIRE(reader.kept() == 0);
        }
    }
}

TEST_CASE("damaged frames come to the same however they are cut") {
    std::mt19937 random(13);
    for (unsigned seed = 0; seed < (sanitized ? 5'000 : 20'000); ++seed) {
        std::string bytes;
        for (auto frames = 1 + random() % 4; frames > 0; --frames)
            bytes += frame(random() % 2 ? "82" : "89", std::string(random() % 20, 'x'));
        for (auto times = 1 + random() % 2; times > 0; --times)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        const char* promise = broken_framing_promise(as_bytes(bytes), 1'000);
        REQUIRE_MESSAGE(!promise, std::string_view(promise), ": ", hex(bytes));
    }
}
