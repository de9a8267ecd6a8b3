#pragma once

#include <doctest/doctest.h>
#include <openssl/evp.h>

#include <functional>
#include <string>

#include "loadgen/net/loop.h"
#include "loadgen/net/stream.h"
#include "loadgen/net/tls.h"
#include "tests/support/lab_peer.h"

namespace pulsegate {

/// Writes down what happens to a stream. It takes what comes in pieces of `takes` bytes.
struct StreamLog : load::Stream::Owner {
    load::Stream* stream = nullptr;
    std::string received;
    std::size_t takes = 1;
    std::size_t largest = 0;  ///< bytes that were offered at once
    int opened = 0;
    int ended = 0;
    load::EndedBy by{};
    std::string cause;
    std::function<void()> on_bytes = [] {};

    void stream_open(load::Time) override { ++opened; }
    std::size_t stream_bytes(Bytes bytes, load::Time) override {
        largest = std::max(largest, bytes.size());
        const std::size_t taken = bytes.size() / takes * takes;
        received += as_text(bytes.first(taken));
        on_bytes();
        return taken;
    }
    void stream_ended(load::EndedBy who, std::string_view why, load::Time) override {
        ++ended;
        by = who;
        cause = why;
    }
};

/// A stream on a loop of its own, and the server that it connects to.
struct StreamScene {
    LabPeer peer;
    load::Loop loop;
    LabRun run{loop};
    load::StreamHost host{loop, 7};
    StreamLog log;
    load::Stream stream{host, log};
    std::string name = "localhost";
    std::string path = "/mqtt";

    void connect(bool websocket = false, const load::TlsContext* tls = nullptr) {
        stream.connect({.target = peer.address(),
                        .tls = tls,
                        .websocket = websocket,
                        .host = name,
                        .port = peer.port(),
                        .path = path});
    }

    LabConnection connected() {
        connect();
        REQUIRE(run.until([&] { return log.opened == 1; }));
        return peer.accept();
    }

    LabConnection upgraded() {
        connect(true);
        LabConnection other = upgrade(peer, run);
        REQUIRE(run.until([&] { return log.opened == 1; }));
        return other;
    }

    /// Answers the request for a WebSocket as a server does.
    static LabConnection upgrade(LabPeer& peer, LabRun& run) {
        run.settle();
        LabConnection other = peer.accept();
        const std::string request = other.read_until("\r\n\r\n");
        const auto at = request.find("Sec-WebSocket-Key: ") + 19;
        other.write(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: "
            "keep-alive, Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n"
            "Sec-WebSocket-Accept: " +
            accept_of(request.substr(at, 24)) + "\r\n\r\n");
        return other;
    }

    static std::string accept_of(std::string key) {
        key += "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        unsigned char digest[20];
        EVP_Digest(key.data(), key.size(), digest, nullptr, EVP_sha1(), nullptr);
        unsigned char text[32];
        const int size = EVP_EncodeBlock(text, digest, sizeof digest);
        return {reinterpret_cast<char*>(text), static_cast<std::size_t>(size)};
    }
};

}  // namespace pulsegate
