#include "server/transport/tls/tls.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"
#include "server/transport/tls/ticket_keys.h"
#include "tests/support/self_signed.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

struct Deleter {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

struct TlsFiles : SelfSigned {
    Tls::Settings settings() const {
        Tls::Settings settings;
        settings.certificates = {certificate};
        settings.keys = {key};
        return settings;
    }
};

const TlsFiles& self_signed() {
    static const TlsFiles made;
    return made;
}

struct Client {
    explicit Client(int version) : context(SSL_CTX_new(TLS_client_method())) {
        SSL_CTX_set_min_proto_version(context.get(), version);
        SSL_CTX_set_max_proto_version(context.get(), version);
        SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_CLIENT);
    }

    const Owned<SSL_CTX> context;
    Owned<SSL_SESSION> session{};  ///< that it has a ticket for
};

struct HandshakeOutcome {
    bool connected = false;
    bool resumed = false;
};

/// A client connects, with its session if it has one, and keeps what it is given.
HandshakeOutcome connect(const Tls& tls, Client& client) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    const UniqueFd ours(pair[0]);
    const UniqueFd theirs(pair[1]);
    const auto server = tls.accept(ours.get());
    const Owned<SSL> ssl(SSL_new(client.context.get()));
    SSL_set_fd(ssl.get(), theirs.get());
    SSL_set_connect_state(ssl.get());
    if (client.session) SSL_set_session(ssl.get(), client.session.get());
    for (int i = 0; i < 10; ++i) {
        SSL_do_handshake(ssl.get());
        server->shake_hands();
    }
    if (!SSL_is_init_finished(ssl.get()) || !SSL_is_init_finished(server->ssl())) return {};
    char byte = 'x';
    server->send(&byte, 1);
    SSL_read(ssl.get(), &byte, 1);  // in TLS 1.3 the ticket comes with what is read
    client.session.reset(SSL_get1_session(ssl.get()));
    SSL_shutdown(ssl.get());  // or the session would count as broken
    return {true, SSL_session_reused(ssl.get()) == 1};
}

/// A client that has shaken hands in TLS 1.3.
struct Peers {
    Peers() {
        int pair[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
        ours = UniqueFd(pair[0]);
        theirs = UniqueFd(pair[1]);
        server = tls.accept(ours.get());
        client.reset(SSL_new(of_client.context.get()));
        SSL_set_fd(client.get(), theirs.get());
        SSL_set_connect_state(client.get());
        while (server->shake_hands() != 1) SSL_do_handshake(client.get());
    }

    void update_keys(int times) const {
        for (int i = 0; i < times; ++i) {
            SSL_key_update(client.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
            SSL_do_handshake(client.get());
        }
    }

    struct Call {
        ssize_t result;
        int error;
    };
    Call receive() const {
        char bytes[100];
        errno = 0;
        const auto result = server->receive(bytes, sizeof bytes);
        return {result, errno};
    }

    const Tls tls{self_signed().settings()};
    const Client of_client{TLS1_3_VERSION};
    UniqueFd ours{};
    UniqueFd theirs{};
    std::unique_ptr<TlsSession> server{};
    Owned<SSL> client{};
};

}  // namespace

TEST_CASE("updates of keys hold no call for long, and too many in a row are not read") {
    const Peers peers;
    peers.update_keys(31);
    while (peers.receive().error == EINTR) continue;
    CHECK_FALSE(peers.server->is_flooded());
    REQUIRE(SSL_write(peers.client.get(), "x", 1) == 1);
    CHECK(peers.receive().result == 1);
    peers.update_keys(100);
    int calls = 1;
    while (peers.receive().error == EINTR) {
        CHECK(peers.server->taken_without_data() == 8);
        ++calls;
    }
    CHECK(calls == 4);
    CHECK(peers.server->is_flooded());
    CHECK(peers.receive().error == EPROTO);
    CHECK(peers.server->taken_without_data() == 0);
}

TEST_CASE("data is read from a client that updates its keys between it") {
    const Peers peers;
    for (int i = 0; i < 100; ++i) {
        peers.update_keys(7);
        REQUIRE(SSL_write(peers.client.get(), "x", 1) == 1);
        CHECK(peers.receive().result == 1);
        CHECK(peers.server->taken_without_data() == 7);
    }
    peers.update_keys(31);
    REQUIRE(SSL_write(peers.client.get(), "x", 1) == 1);
    while (peers.receive().result < 0) CHECK_FALSE(peers.server->is_flooded());
    CHECK(peers.receive().error == EAGAIN);
}

TEST_CASE("in TLS 1.2 only suites with forward secrecy are spoken") {
    const Tls tls(self_signed().settings());
    const auto speaks = [&](const char* suite) {
        Client client(TLS1_2_VERSION);
        REQUIRE(SSL_CTX_set_cipher_list(client.context.get(), suite) == 1);
        return connect(tls, client).connected;
    };
    CHECK(speaks("ECDHE-RSA-AES128-GCM-SHA256"));
    CHECK(speaks("ECDHE-RSA-AES256-GCM-SHA384"));
    CHECK(speaks("ECDHE-RSA-CHACHA20-POLY1305"));
    CHECK_FALSE(speaks("AES128-GCM-SHA256"));
    CHECK_FALSE(speaks("AES256-SHA"));
    CHECK_FALSE(speaks("ECDHE-RSA-AES128-SHA256"));
}

TEST_CASE("a client that puts ChaCha20 first gets it: it has no instructions for AES") {
    const Tls tls(self_signed().settings());
    const auto suite_for = [&](const char* suites) {
        Client client(TLS1_3_VERSION);
        REQUIRE(SSL_CTX_set_ciphersuites(client.context.get(), suites) == 1);
        REQUIRE(connect(tls, client).connected);
        return std::string(SSL_CIPHER_get_name(SSL_SESSION_get0_cipher(client.session.get())));
    };
    CHECK(suite_for("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256") ==
          "TLS_CHACHA20_POLY1305_SHA256");
    CHECK(suite_for("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256") ==
          "TLS_AES_128_GCM_SHA256");
    CHECK(suite_for("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") ==
          "TLS_AES_256_GCM_SHA384");
}

TEST_CASE(
    "a ticket can be resumed for one period after its keys were replaced, and is then replaced "
    "itself") {
    StoppedClock clock;
    const Tls tls(self_signed().settings());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        Client client(version);
        CHECK_FALSE(connect(tls, client).resumed);
        CHECK(connect(tls, client).resumed);
        clock.advance(TicketKeys::period);
        CHECK(connect(tls, client).resumed);
        clock.advance(TicketKeys::period);
        CHECK(connect(tls, client).resumed);  // with the ticket that replaced the first one
        clock.advance(TicketKeys::period);
        clock.advance(TicketKeys::period);
        CHECK_FALSE(connect(tls, client).resumed);
        CHECK(connect(tls, client).resumed);
    }
}

TEST_CASE("a ticket from before does not replace the certificate that a client must present now") {
    const Tls before(self_signed().settings());
    Tls::Settings settings = self_signed().settings();
    settings.client_ca = self_signed().certificate;
    Tls after(settings);
    after.ticket_keys().adopt(before.ticket_keys().describe());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        Client client(version);
        REQUIRE(connect(before, client).connected);
        CHECK(connect(before, client).resumed);
        CHECK_FALSE(connect(after, client).connected);
    }
}

TEST_CASE("tickets of the process before resume in the next one, for no longer than there") {
    StoppedClock clock;
    const Tls before(self_signed().settings());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        Tls after(self_signed().settings());
        Client client(version);
        CHECK_FALSE(connect(before, client).resumed);
        after.ticket_keys().adopt(before.ticket_keys().describe());
        CHECK(connect(after, client).resumed);
        CHECK(connect(before, client).resumed);  // it may go on all the same
        clock.advance(TicketKeys::period / 2);
        Tls last(self_signed().settings());
        last.ticket_keys().adopt(after.ticket_keys().describe());
        clock.advance(TicketKeys::period / 2);
        CHECK(connect(last, client).resumed);  // that replaces the ticket
        clock.advance(TicketKeys::period);
        clock.advance(TicketKeys::period);
        CHECK_FALSE(connect(last, client).resumed);
        Tls other(self_signed().settings());
        other.ticket_keys().adopt({.present = SecretBytes("no key"), .past = SecretBytes("")});
        CHECK_FALSE(connect(other, client).resumed);
        CHECK(connect(other, client).resumed);
    }
}

TEST_CASE(
    "if clients show certificates, no session is resumed, because a resumption does not check "
    "them") {
    Tls::Settings settings = self_signed().settings();
    settings.client_ca = self_signed().certificate;
    const Tls tls(settings);
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        Client client(version);
        SSL_CTX_use_certificate_file(client.context.get(), self_signed().certificate.c_str(),
                                     SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(client.context.get(), self_signed().key.c_str(),
                                    SSL_FILETYPE_PEM);
        REQUIRE(connect(tls, client).connected);
        const auto again = connect(tls, client);
        CHECK(again.connected);
        CHECK_FALSE(again.resumed);
    }
}

TEST_CASE("PEM files may begin with a byte order mark") {
    const TemporaryFolder folder;
    const auto marked = [&](const std::string& name, const std::string& path) {
        std::ostringstream text;
        text << "\xEF\xBB\xBF" << std::ifstream(path).rdbuf();
        const std::string copy = folder.write(name, text.str());
        ::chmod(copy.c_str(), 0600);
        return copy;
    };
    Tls::Settings settings = self_signed().settings();
    settings.certificates = {marked("chain", self_signed().certificate)};
    settings.keys = {marked("key", self_signed().key)};
    settings.client_ca = marked("ca", self_signed().certificate);
    const Tls tls(settings);
    Client client(TLS1_3_VERSION);
    SSL_CTX_use_certificate_file(client.context.get(), self_signed().certificate.c_str(),
                                 SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(client.context.get(), self_signed().key.c_str(), SSL_FILETYPE_PEM);
    CHECK(connect(tls, client).connected);
}

TEST_CASE("a revocation list that is none stops the start, with its name") {
    Tls::Settings settings = self_signed().settings();
    settings.client_ca = self_signed().certificate;
    settings.client_crl = self_signed().certificate;
    const auto what = complaint([&] { Tls tls(settings); });
    CHECK(what.starts_with("tls-client-crl: " + self_signed().certificate));
}
