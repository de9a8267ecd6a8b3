#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "loadgen/net/loop.h"
#include "loadgen/net/stream.h"
#include "loadgen/net/tls.h"
#include "tests/support/lab_peer.h"
#include "tests/support/temporary_folder.h"

namespace pulsegate {

namespace {

using load::Clock;
using load::EndedBy;
using load::Loop;
using load::Stream;
using load::Time;

/// Writes down what happens to a stream. It takes what comes in pieces of `takes` bytes.
struct StreamLog : Stream::Owner {
    Stream* stream = nullptr;
    std::string received;
    std::size_t takes = 1;
    std::size_t largest = 0;  ///< bytes that were offered at once
    int opened = 0;
    int ended = 0;
    EndedBy by{};
    std::string cause;
    std::function<void()> on_bytes = [] {};

    void stream_open(Time) override { ++opened; }
    std::size_t stream_bytes(Bytes bytes, Time) override {
        largest = std::max(largest, bytes.size());
        const std::size_t taken = bytes.size() / takes * takes;
        received += as_text(bytes.first(taken));
        on_bytes();
        return taken;
    }
    void stream_ended(EndedBy who, std::string_view why, Time) override {
        ++ended;
        by = who;
        cause = why;
    }
};

/// A stream on a loop of its own, and the server that it connects to.
struct Scene {
    LabPeer peer;
    Loop loop;
    LabRun run{loop};
    load::StreamHost host{loop, 7};
    StreamLog log;
    Stream stream{host, log};
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

/// The payload of a masked frame of up to 125 bytes.
std::string unmasked(const std::string& frame) {
    REQUIRE(frame.size() >= 6);
    REQUIRE((frame[1] & 0x80) != 0);
    std::string payload = frame.substr(6);
    for (std::size_t i = 0; i < payload.size(); ++i)
        payload[i] = static_cast<char>(payload[i] ^ frame[2 + i % 4]);
    return payload;
}

}  // namespace

// -- TCP --

TEST_CASE("a stream connects, sends and receives, and knows when") {
    Scene scene;
    const Time before = Clock::now();
    LabConnection other = scene.connected();
    CHECK(scene.stream.tcp_connected_at() >= before);
    CHECK(scene.stream.before_send() == Time());

    scene.stream.send("hello");
    CHECK(scene.stream.before_send() >= scene.stream.tcp_connected_at());
    CHECK(scene.stream.after_send() >= scene.stream.before_send());
    CHECK(other.read(5) == "hello");

    other.write("welcome");
    CHECK(scene.run.until([&] { return scene.log.received == "welcome"; }));
    CHECK(scene.host.traffic.bytes_sent == 5);
    CHECK(scene.host.traffic.bytes_received == 7);
}

TEST_CASE("a stream connects from the source address that it is told") {
    Scene scene;
    const auto sources = load::loopback_sources(9);
    scene.stream.connect({.target = scene.peer.address(),
                          .source = &sources[8],
                          .host = scene.name,
                          .port = 0,
                          .path = scene.path});
    REQUIRE(scene.run.until([&] { return scene.log.opened == 1; }));
    LabConnection other = scene.peer.accept();
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getpeername(other.number(), reinterpret_cast<sockaddr*>(&address), &size);
    CHECK(ntohl(address.sin_addr.s_addr) == INADDR_LOOPBACK + 8);
}

TEST_CASE("what the owner can't use yet comes again with more behind it") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.takes = 4;
    other.write("abcde");
    CHECK(scene.run.until([&] { return scene.log.received == "abcd"; }));
    other.write("fgh");
    CHECK(scene.run.until([&] { return scene.log.received == "abcdefgh"; }));
}

TEST_CASE("what the socket doesn't take is sent later, in order") {
    Scene scene;
    LabConnection other = scene.connected();
    std::string all;
    for (char letter = 'a'; letter <= 'z'; ++letter) {
        const std::string part(400'000, letter);
        scene.stream.send(part);
        all += part;
    }
    CHECK(scene.stream.unsent() > 0);
    std::string got;
    CHECK(scene.run.until([&] { return (got += other.waiting()).size() >= all.size(); }));
    CHECK_MESSAGE(got == all, "the bytes differ");
    CHECK(scene.stream.unsent() == 0);
}

TEST_CASE("a stream whose server reads nothing stops reading, too, until it is served again") {
    Scene scene;
    LabConnection other = scene.connected();
    while (scene.stream.unsent() <= Stream::most_unsent)
        scene.stream.send(std::string(1'000'000, 'x'));
    other.write("late");
    scene.run.settle();
    CHECK(scene.log.received.empty());
    CHECK(scene.run.until([&] {
        other.waiting();
        return scene.log.received == "late";
    }));
}

TEST_CASE("the last bytes of a server come before the end of the stream") {
    Scene scene;
    LabConnection other = scene.connected();
    other.write("farewell");
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received == "farewell");
    CHECK(scene.log.by == EndedBy::close);
}

TEST_CASE("an end that comes while bytes are read is noticed") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.on_bytes = [&] { other.finish(); };
    other.write("farewell");
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received == "farewell");
}

TEST_CASE("more than fits into a few reads is read to its end") {
    Scene scene;
    LabConnection other = scene.connected();
    const std::string much(8'000'000, 'm');
    std::thread writer([&] { other.write(much); });
    CHECK(scene.run.until([&] { return scene.log.received.size() == much.size(); }));
    writer.join();
}

TEST_CASE("a reset is a failure, and a refused connection too") {
    Scene scene;
    LabConnection other = scene.connected();
    other.reset();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::failure);
    CHECK(scene.log.cause == "Connection reset by peer");

    scene.peer.stop_listening();
    scene.connect();
    CHECK(scene.run.until([&] { return scene.log.ended == 2; }));
    CHECK(scene.log.cause == "Connection refused");
}

TEST_CASE("what the server said before it reset is read, although a send has failed by then") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.send("unread");
    other.write("go away");
    other.close();  // a reset, since it leaves bytes unread
    scene.stream.send("too late");
    scene.stream.send("still too late");
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received == "go away");
    CHECK(scene.log.by == EndedBy::failure);
}

TEST_CASE("trouble of this machine is told as such, and not from within connect") {
    Scene scene;
    sockaddr_in elsewhere{};
    elsewhere.sin_family = AF_INET;
    elsewhere.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1: nobody's
    const load::SocketAddress source(reinterpret_cast<sockaddr*>(&elsewhere), sizeof elsewhere);
    scene.stream.connect({.target = scene.peer.address(),
                          .source = &source,
                          .host = scene.name,
                          .port = 0,
                          .path = scene.path});
    CHECK(scene.log.ended == 0);
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::local);
}

TEST_CASE("a stream may be closed and connected again while it is told of bytes") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.on_bytes = [&] {
        scene.stream.close();
        scene.connect();
        scene.log.on_bytes = [] {};
    };
    other.write("once");
    CHECK(scene.run.until([&] { return scene.log.opened == 2; }));
    CHECK(scene.log.ended == 0);
    CHECK(other.read(1).empty());
    LabConnection second = scene.peer.accept();
    second.write(" more");
    CHECK(scene.run.until([&] { return scene.log.received == "once more"; }));
}

TEST_CASE("a frozen stream neither reads nor writes, and tells when the server closes") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.freeze();
    other.write("are you there?");
    scene.run.settle();
    CHECK(scene.log.received.empty());
    CHECK(scene.log.ended == 0);
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::close);
}

TEST_CASE("an end that was announced together with the last bytes is told of a frozen stream") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.on_bytes = [&] { scene.stream.freeze(); };
    other.write("farewell");
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
}

TEST_CASE("a socket that is left half open is closed when the server closes it") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.leave_half_open();
    other.write("are you there?");
    scene.run.settle();
    CHECK(scene.host.half_open.size() == 1);
    CHECK(other.waiting().empty());
    other.finish();
    CHECK(scene.run.until([&] { return scene.host.half_open.size() == 0; }));
    CHECK(scene.log.ended == 0);
}

TEST_CASE("a stream that finishes sends everything first, and then waits for the server") {
    Scene scene;
    LabConnection other = scene.connected();
    std::size_t size = 0;
    while (scene.stream.unsent() == 0) {
        scene.stream.send(std::string(1'000'000, 'x'));
        size += 1'000'000;
    }
    scene.stream.send("the end");
    scene.stream.finish();
    other.write("unread");
    std::string got;
    CHECK(scene.run.until([&] { return (got += other.waiting()).size() >= size + 7; }));
    CHECK(got.ends_with("the end"));
    CHECK(other.read(1).empty());
    other.close();
    scene.run.settle();
    CHECK(scene.log.ended == 0);
}

TEST_CASE("a reader can be slowed down to some bytes at a time") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.read_at_most(3);
    other.write("abcdefgh");
    CHECK(scene.run.until([&] { return scene.log.received == "abc"; }));
    scene.run.settle();
    CHECK(scene.log.received == "abc");
    scene.stream.read_at_most(2);
    CHECK(scene.run.until([&] { return scene.log.received == "abcde"; }));
    scene.stream.read_at_most(Stream::unlimited);
    CHECK(scene.run.until([&] { return scene.log.received == "abcdefgh"; }));
}

TEST_CASE("a reader that has paused is told that the server closes") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.read_at_most(0);
    other.write("unread");
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received.empty());
}

// -- WebSocket --

TEST_CASE("a stream carries bytes in WebSocket frames, and answers pings") {
    Scene scene;
    LabConnection other = scene.upgraded();
    scene.stream.send("hello");
    CHECK(unmasked(other.read(11)) == "hello");
    other.write(wire("82 04 'some' 89 02 'hi' 82 05 ' more'"));
    CHECK(scene.run.until([&] { return scene.log.received == "some more"; }));
    const std::string pong = other.read(8);
    CHECK(static_cast<unsigned char>(pong[0]) == 0x8A);
    CHECK(unmasked(pong) == "hi");
}

TEST_CASE("frames that come in one packet with the answer to the request are read") {
    Scene scene;
    scene.connect(true);
    scene.run.settle();
    LabConnection other = scene.peer.accept();
    const std::string request = other.read_until("\r\n\r\n");
    const auto key = request.substr(request.find("Sec-WebSocket-Key: ") + 19, 24);
    other.write(
        "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        "Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Accept: " +
        Scene::accept_of(key) + "\r\n\r\n" + wire("82 7e 0190 'e'*400 82 06 'ear'"));
    CHECK(scene.run.until([&] { return scene.log.received.size() == 403; }));
    other.write("ly!");
    CHECK(scene.run.until([&] { return scene.log.received.ends_with("early!"); }));
    CHECK(scene.log.opened == 1);
}

TEST_CASE("what the owner can't use yet and half a frame are kept side by side") {
    Scene scene;
    LabConnection other = scene.upgraded();
    scene.log.takes = 4;
    for (const char byte : wire("82 03 'abc' 82 7e 0080 'd'*128 89 02 'hi' 82 01 'e'")) {
        other.write({&byte, 1});
        scene.run.settle();
    }
    CHECK(scene.log.received == "abc" + std::string(128, 'd') + "e");
}

TEST_CASE("the close of a WebSocket, a fault in it and a refusal of it are three different ends") {
    Scene scene;
    SUBCASE("close") {
        LabConnection other = scene.upgraded();
        other.write(wire("82 01 'x' 88 06 03e9 'gone'"));
        CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
        CHECK(scene.log.received == "x");
        CHECK(scene.log.by == EndedBy::close);
        CHECK(scene.log.cause == "WebSocket closed by the server, code 1001: gone");
    }
    SUBCASE("fault") {
        LabConnection other = scene.upgraded();
        other.write(wire("81 01 'x'"));
        CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
        CHECK(scene.log.by == EndedBy::violation);
    }
    SUBCASE("refusal") {
        scene.connect(true);
        scene.run.settle();
        LabConnection other = scene.peer.accept();
        other.write("HTTP/1.1 503 Busy\r\n\r\n");
        CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
        CHECK(scene.log.by == EndedBy::refusal);
        CHECK(scene.log.opened == 0);
    }
}

// -- TLS --

namespace {

template <auto Function>
struct FreeBy {
    template <class Object>
    void operator()(Object* object) const {
        Function(object);
    }
};

/// A server over TLS for one connection, with a certificate that it has signed itself: it sends
/// everything back until the client closes.
class TlsEcho {
public:
    TlsEcho(LabPeer& peer, const std::string& name, std::string certificate_file)
        : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
        std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets that clients have closed
        X509* made = certificate_.get();
        X509_set_version(made, 2);
        X509_gmtime_adj(X509_getm_notBefore(made), -3600);
        X509_gmtime_adj(X509_getm_notAfter(made), 3600);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
        X509_set_issuer_name(made, X509_get_subject_name(made));
        X509_set_pubkey(made, key_.get());
        X509_sign(made, key_.get(), EVP_sha256());
        const std::unique_ptr<std::FILE, FreeBy<std::fclose>> file(
            std::fopen(certificate_file.c_str(), "w"));
        PEM_write_X509(file.get(), made);
        thread_ = std::thread([this, &peer] { serve(peer); });
    }
    ~TlsEcho() { thread_.join(); }

private:
    void serve(LabPeer& peer) {
        const std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>> context(
            SSL_CTX_new(TLS_server_method()));
        SSL_CTX_use_certificate(context.get(), certificate_.get());
        SSL_CTX_use_PrivateKey(context.get(), key_.get());
        LabConnection other = peer.accept();
        const std::unique_ptr<SSL, FreeBy<SSL_free>> session(SSL_new(context.get()));
        SSL_set_fd(session.get(), other.number());
        if (SSL_accept(session.get()) != 1) return;
        std::string buffer(100'000, '\0');
        for (;;) {
            const int size =
                SSL_read(session.get(), buffer.data(), static_cast<int>(buffer.size()));
            if (size <= 0) break;
            SSL_write(session.get(), buffer.data(), size);
        }
        SSL_shutdown(session.get());
    }

    std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>> key_;
    std::unique_ptr<X509, FreeBy<X509_free>> certificate_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("a stream over TLS carries any number of bytes both ways") {
    Scene scene;
    TemporaryFolder folder;
    const TlsEcho server(scene.peer, "localhost", folder.path("ca.pem"));
    const load::TlsContext tls(load::TlsContext::Verify::yes, folder.path("ca.pem"));
    scene.connect(false, &tls);
    REQUIRE(scene.run.until([&] { return scene.log.opened + scene.log.ended == 1; }));
    REQUIRE(scene.log.opened == 1);

    std::string all;
    for (int i = 0; i < 20; ++i) {
        const std::string part(1 + 3'000 * i, static_cast<char>('a' + i));
        scene.stream.send(part);
        all += part;
    }
    CHECK(scene.run.until([&] { return scene.log.received.size() >= all.size(); }));
    CHECK_MESSAGE(scene.log.received == all, "the bytes differ");
    CHECK(scene.host.traffic.bytes_sent > all.size());
    scene.stream.finish();
    scene.run.settle();
    CHECK(scene.log.ended == 0);
}

TEST_CASE("a certificate is checked for its signer and its name, unless that is not wanted") {
    Scene scene;
    TemporaryFolder folder;
    const std::string file = folder.path("ca.pem");
    SUBCASE("another name") {
        const TlsEcho server(scene.peer, "elsewhere", file);
        const load::TlsContext tls(load::TlsContext::Verify::yes, file);
        scene.connect(false, &tls);
        CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
        CHECK(scene.log.by == EndedBy::failure);
        CHECK(scene.log.cause == "TLS: the certificate is not accepted: hostname mismatch");
    }
    SUBCASE("another signer") {
        const TlsEcho server(scene.peer, "localhost", file);
        const load::TlsContext tls(load::TlsContext::Verify::yes);
        scene.connect(false, &tls);
        CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
        CHECK(scene.log.cause == "TLS: the certificate is not accepted: self-signed certificate");
    }
    SUBCASE("not checked") {
        const TlsEcho server(scene.peer, "elsewhere", file);
        const load::TlsContext tls(load::TlsContext::Verify::no);
        scene.connect(false, &tls);
        CHECK(scene.run.until([&] { return scene.log.opened == 1; }));
        scene.stream.close();
    }
}

TEST_CASE("a server that speaks no TLS fails the handshake") {
    Scene scene;
    const load::TlsContext tls(load::TlsContext::Verify::no);
    scene.connect(false, &tls);
    scene.run.settle();
    LabConnection other = scene.peer.accept();
    other.write("220 smtp.example ESMTP\r\n");
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::failure);
    CHECK(scene.log.cause == "TLS: wrong version number");
}

TEST_CASE("a file of certificates that can't be read is told at the start") {
    CHECK(complaint([] {
              load::TlsContext(load::TlsContext::Verify::yes, "/nowhere.pem");
          }).starts_with("can't read the certificates of /nowhere.pem: "));
}

}  // namespace pulsegate
