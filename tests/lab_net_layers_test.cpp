#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/lab_stream.h"
#include "tests/support/temporary_folder.h"

namespace pulsegate {

namespace {

using load::EndedBy;

using Scene = StreamScene;

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
