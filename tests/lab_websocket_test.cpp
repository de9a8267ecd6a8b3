#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/net/websocket.h"
#include "tests/support/wire.h"

namespace pulsegate {

TEST_CASE("frames of the client are masked as in the example of RFC 6455") {
    Buffer out;
    load::append_frame(out, Opcode::text, "Hello", 0x3d21fa37u);  // the mask 37 fa 21 3d
    const std::string expected = wire("81 85 37fa213d 7f9f4d5158");
    CHECK(hex(out) == hex(expected));
}

TEST_CASE("a message of the client can be fragmented") {
    Buffer out;
    load::append_fragment(out, Opcode::binary, false, "Hel", 0);
    load::append_fragment(out, Opcode::continuation, true, "lo", 0);
    CHECK(hex(out) == hex(wire("02 83 00000000 'Hel' 80 82 00000000 'lo'")));
}

TEST_CASE("sizes of frames take as many bytes as they need") {
    for (const auto& [size, header] : std::vector<std::pair<std::size_t, std::string>>{
             {125, "82 fd"},
             {126, "82 fe 00 7e"},
             {65'535, "82 fe ff ff"},
             {65'536, "82 ff 00 00 00 00 00 01 00 00"}}) {
        Buffer out;
        load::append_frame(out, Opcode::binary, std::string(size, 'x'), 0);
        CHECK(hex(out).starts_with(header));
        CHECK(out.size() == wire(header).size() + 4 + size);
    }
}

TEST_CASE("the server's frames are read as in the examples of RFC 6455, however they are split") {
    const std::string frames = wire("02 03 'Hel' 89 05 'Hello' 80 02 'lo' 82 7e 0100 'z'*256");
    for (std::size_t split = 0; split <= frames.size(); ++split) {
        load::ServerUnframer unframer;
        std::string buffer = frames.substr(0, split);
        std::string payload;
        int pings = 0;
        const auto read = [&] {
            for (;;) {
                auto* at = reinterpret_cast<std::uint8_t*>(buffer.data());
                const Unframed part = unframer.next({at, buffer.size()}, at);
                payload += buffer.substr(0, part.payload);
                if (part.event == Unframed::Event::ping) CHECK(as_text(part.body) == "Hello");
                if (part.event == Unframed::Event::ping) ++pings;
                buffer.erase(0, part.consumed);
                if (part.event == Unframed::Event::none) return;
                REQUIRE(part.event == Unframed::Event::ping);
            }
        };
        read();
        CHECK(buffer.size() <= load::ServerUnframer::longest_rest);
        buffer += frames.substr(split);
        read();
        CHECK(payload == "Hello" + std::string(256, 'z'));
        CHECK(pings == 1);
    }
}

TEST_CASE("frames that no server may send are told by their fault") {
    const auto fault = [](const char* notation) {
        std::string bytes = wire(notation);
        auto* at = reinterpret_cast<std::uint8_t*>(bytes.data());
        load::ServerUnframer unframer;
        const Unframed part = unframer.next({at, bytes.size()}, at);
        return part.event == Unframed::Event::bad ? std::string(part.cause) : "";
    };
    CHECK(fault("81 01 'x'") == "a WebSocket text frame can't carry MQTT");
    CHECK(fault("82 81 00000000 'x'") == "a frame of the server is masked");
    constexpr auto long_size = "the length of a WebSocket frame takes more bytes than it needs";
    CHECK(fault("82 7e 007d 'x'*125") == long_size);
    CHECK(fault("82 7f 0000 0000 0000 ffff") == long_size);
    CHECK(fault("82 7e 007e 'x'*126").empty());
    CHECK(fault("c2 01 'x'") == "a reserved bit of a WebSocket frame is set");
    CHECK(fault("80 01 'x'") == "a WebSocket continuation continues nothing");
    CHECK(fault("02 01 'x' 02 01 'y'") == "a WebSocket message begins inside another");
    CHECK(fault("09 00") == "a WebSocket control frame is fragmented");
    CHECK(fault("89 7e 0080") == "a WebSocket control frame is too large");
    CHECK(fault("83 00") == "a WebSocket opcode is reserved");
}

TEST_CASE("the request for a WebSocket is that of RFC 6455, and its answer is checked") {
    const std::string nonce = "the sample nonce";  // its key is dGhlIHNhbXBsZSBub25jZQ==
    load::WebSocketNonce bytes{};
    std::ranges::copy(nonce, bytes.begin());
    const std::string request = load::upgrade_request("chat.example", 80, "/mqtt", bytes);
    CHECK(request.starts_with("GET /mqtt HTTP/1.1\r\nHost: chat.example:80\r\n"));
    CHECK(request.find("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n") != std::string::npos);
    CHECK(request.find("\r\nSec-WebSocket-Protocol: mqtt\r\n") != std::string::npos);

    using Status = load::UpgradeAnswer::Status;
    const std::string good =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: "
        "mqtt\r\n\r\n";
    const auto accepted = load::read_upgrade_answer(good + "more", bytes);
    CHECK(accepted.status == Status::accepted);
    CHECK(accepted.size == good.size());
    for (std::size_t size = 0; size < good.size(); ++size)
        CHECK(load::read_upgrade_answer(good.substr(0, size), bytes).status == Status::incomplete);

    const auto cause_without = [&](std::string_view part) {
        std::string bad = good;
        bad.replace(bad.find(part), part.size(), "x");
        const auto answer = load::read_upgrade_answer(bad, bytes);
        CHECK(answer.status == Status::bad);
        return answer.cause;
    };
    CHECK(cause_without("s3pP") == "the server answered with the wrong Sec-WebSocket-Accept");
    CHECK(cause_without("mqtt") == "the server answered without the subprotocol 'mqtt'");
    CHECK(cause_without("websocket") == "the server answered without 'Upgrade: websocket'");
    CHECK(load::read_upgrade_answer("HTTP/1.1 503 Busy\r\n\r\n", bytes).cause ==
          "no WebSocket: HTTP/1.1 503 Busy");
    CHECK(load::read_upgrade_answer(std::string(9000, 'x'), bytes).status == Status::bad);
}

}  // namespace pulsegate
