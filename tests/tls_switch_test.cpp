// What goes on without OpenSSL's object, beside OpenSSL: its clients, and its servers that keep the
// object.
#include "server/transport/tls/tls_switch.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/base/memory/free_with.h"
#include "server/transport/tls/small_tls.h"
#include "server/transport/tls/tls.h"
#include "tests/support/self_signed.h"
#include "tests/support/tls_peer.h"

using namespace pulsegate;

namespace {

constexpr std::array<const char*, 3> suite_names = {
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"};

const SelfSigned& switch_files() {
    static const SelfSigned made;
    return made;
}

Tls::Settings settings_of(TlsSession::Idle idle) {
    Tls::Settings settings;
    settings.certificates = {switch_files().certificate};
    settings.keys = {switch_files().key};
    settings.idle = idle;
    return settings;
}

struct ClientSecrets {
    TlsPeer::Secret of_client{};
    TlsPeer::Secret of_server{};
};

/// The client's key log tells both secrets.
void note_secret(const SSL* ssl, const char* text) {
    auto& secrets = *static_cast<ClientSecrets*>(SSL_get_app_data(ssl));
    std::string_view line(text);
    TlsPeer::Secret* secret = nullptr;
    if (line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) secret = &secrets.of_client;
    if (line.starts_with("SERVER_TRAFFIC_SECRET_0 ")) secret = &secrets.of_server;
    if (!secret) return;
    line.remove_prefix(line.rfind(' ') + 1);
    for (std::size_t i = 0; 2 * i < line.size(); ++i)
        std::from_chars(line.data() + 2 * i, line.data() + 2 * i + 2, (*secret)[i], 16);
}

std::string drained(int socket) {
    std::string all(1'000'000, '\0');
    std::size_t size = 0;
    while (size < all.size()) {
        const auto more = ::recv(socket, all.data() + size, all.size() - size, 0);
        if (more <= 0) break;
        size += static_cast<std::size_t>(more);
    }
    all.resize(size);
    return all;
}

/// A client of OpenSSL's that has shaken hands with a server of ours.
struct SwitchPair {
    struct Options {
        int version = TLS1_3_VERSION;
        Suite suite = Suite::aes_256_gcm;
        TlsSession::Idle idle = TlsSession::Idle::small;
        bool shows_certificate = false;
        std::uint8_t fragments = TLSEXT_max_fragment_length_DISABLED;
        const char* groups = nullptr;
        std::string_view early_words{};  ///< in one segment with the client's Finished
    };

    explicit SwitchPair(const Options& options) : tls(settings_with(options)) {
        int pair[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
        ours = UniqueFd(pair[0]);
        theirs = UniqueFd(pair[1]);
        server = tls.accept(ours.get());
        prepare_client(options);
        shake_hands(options);
    }

    static Tls::Settings settings_with(const Options& options) {
        Tls::Settings settings = settings_of(options.idle);
        if (options.shows_certificate) settings.client_ca = switch_files().certificate;
        return settings;
    }

    void prepare_client(const Options& options) {
        SSL_CTX* const raw = context.get();
        SSL_CTX_set_min_proto_version(raw, options.version);
        SSL_CTX_set_max_proto_version(raw, options.version);
        SSL_CTX_set_ciphersuites(raw, suite_names[static_cast<std::size_t>(options.suite)]);
        SSL_CTX_set_keylog_callback(raw, note_secret);
        if (options.groups) SSL_CTX_set1_groups_list(raw, options.groups);
        if (options.shows_certificate) {
            SSL_CTX_use_certificate_file(raw, switch_files().certificate.c_str(), SSL_FILETYPE_PEM);
            SSL_CTX_use_PrivateKey_file(raw, switch_files().key.c_str(), SSL_FILETYPE_PEM);
        }
        client.reset(SSL_new(raw));
        SSL_set_tlsext_max_fragment_length(client.get(), options.fragments);
        SSL_set_app_data(client.get(), &secrets);
        SSL_set_fd(client.get(), theirs.get());
        SSL_set_connect_state(client.get());
    }

    void shake_hands(const Options& options) {
        for (int i = 0; i < 10 && !SSL_is_init_finished(client.get()); ++i) {
            SSL_do_handshake(client.get());
            const bool is_last = SSL_is_init_finished(client.get()) == 1;
            if (is_last && !options.early_words.empty())
                SSL_write(client.get(), options.early_words.data(),
                          static_cast<int>(options.early_words.size()));
            if (server->shake_hands() == 1) break;
        }
        REQUIRE(SSL_is_init_finished(server->ssl()));
        auto outcome = server->go_on_small();
        idle = outcome.idle;
        small = std::move(outcome.small);
        if (small) server.reset();
        while (SSL_do_handshake(client.get()) != 1) server->shake_hands();  // the end of TLS 1.2's
    }

    /// What the server reads until there is no more.
    std::string read() {
        std::string all;
        std::string buffer(64 * 1024, '\0');
        while (true) {
            auto* const at = reinterpret_cast<std::uint8_t*>(buffer.data());
            const auto size = small ? small->receive(ours.get(), at, buffer.size())
                                    : server->receive(at, buffer.size());
            if (size > 0) all.append(buffer, 0, static_cast<std::size_t>(size));
            if (size < 0 && errno == EINTR) continue;
            if (size == 0) end = 0;
            if (size < 0 && errno != EAGAIN) end = errno;
            if (size <= 0) return all;
        }
    }
    void send(std::string text) {
        while (!small && !text.empty()) {
            const auto done = server->send(text.data(), text.size());
            if (done < 0) return;
            text.erase(0, static_cast<std::size_t>(done));
        }
        if (!small) return;
        const auto done = small->send(ours.get(), text, 0);
        if (done == static_cast<ssize_t>(text.size())) text.clear();
    }
    void close() {
        if (small)
            small->end(ours.get(), "");
        else
            SSL_shutdown(server->ssl());
    }

    /// What the client reads.
    std::string client_read() const {
        std::string all;
        char bytes[4096];
        int size = 0;
        while ((size = SSL_read(client.get(), bytes, sizeof bytes)) > 0)
            all.append(bytes, static_cast<std::size_t>(size));
        return all;
    }
    void client_send(std::string_view text) const {
        REQUIRE(SSL_write(client.get(), text.data(), static_cast<int>(text.size())) ==
                static_cast<int>(text.size()));
    }
    void client_updates_keys(int type) const {
        REQUIRE(SSL_key_update(client.get(), type) == 1);
        REQUIRE(SSL_do_handshake(client.get()) == 1);
    }

    const Tls tls;
    const std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>> context{
        SSL_CTX_new(TLS_client_method())};
    ClientSecrets secrets{};
    UniqueFd ours{};
    UniqueFd theirs{};
    std::unique_ptr<TlsSession> server{};
    std::unique_ptr<SSL, FreeWith<SSL_free>> client{};
    TlsIdle idle{};
    std::unique_ptr<SmallTls> small{};
    int end = -1;  ///< 0: closed; otherwise what went wrong
};

void check_conversation(SwitchPair& pair) {
    pair.client_send("hello");
    CHECK(pair.read() == "hello");
    pair.send("welcome");
    CHECK(pair.client_read() == "welcome");
    for (int i = 0; i < 3; ++i) {
        pair.client_updates_keys(SSL_KEY_UPDATE_REQUESTED);
        pair.client_send("again");
        CHECK(pair.read() == "again");
        pair.send("and again");
        CHECK(pair.client_read() == "and again");
        pair.client_updates_keys(SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    pair.client_send(std::string(40'000, 'x'));
    CHECK(pair.read() == std::string(40'000, 'x'));
    pair.send(std::string(40'000, 'y'));
    CHECK(pair.client_read() == std::string(40'000, 'y'));
    SSL_shutdown(pair.client.get());
    CHECK(pair.read().empty());
    CHECK(pair.end == 0);
    pair.close();
    CHECK(SSL_shutdown(pair.client.get()) == 1);  // both have said that they close
}

}  // namespace

TEST_CASE("a handshake of OpenSSL goes on without its object, with each suite") {
    for (const Suite suite : {Suite::aes_128_gcm, Suite::aes_256_gcm, Suite::chacha20_poly1305}) {
        CAPTURE(static_cast<int>(suite));
        SwitchPair pair({.suite = suite});
        CHECK(pair.idle == TlsIdle::small);
        REQUIRE(pair.small);
        check_conversation(pair);
    }
}

TEST_CASE("without tickets, as with client certificates, the last message is what is checked") {
    SwitchPair pair({.shows_certificate = true});
    CHECK(pair.idle == TlsIdle::small);
    REQUIRE(pair.small);
    check_conversation(pair);
}

TEST_CASE("a handshake in two rounds goes on as well") {
    SwitchPair pair({.groups = "P-521:X25519"});
    CHECK(pair.idle == TlsIdle::small);
    check_conversation(pair);
}

TEST_CASE("shorter fragments are kept to") {
    SwitchPair pair({.fragments = TLSEXT_max_fragment_length_512});
    CHECK(pair.idle == TlsIdle::small);
    check_conversation(pair);
}

TEST_CASE("the object is kept for TLS 1.2, and if the setting says so") {
    SwitchPair old({.version = TLS1_2_VERSION});
    CHECK(old.idle == TlsIdle::version);
    REQUIRE_FALSE(old.small);
    old.client_send("hello");
    CHECK(old.read() == "hello");

    SwitchPair kept({.idle = TlsSession::Idle::openssl});
    CHECK(kept.idle == TlsIdle::setting);
    REQUIRE_FALSE(kept.small);
    check_conversation(kept);
}

TEST_CASE("records in one segment with the end of the handshake are read") {
    for (const auto idle : {TlsSession::Idle::small, TlsSession::Idle::openssl}) {
        SwitchPair pair({.idle = idle, .early_words = "at once"});
        CHECK(pair.read() == "at once");
        pair.send("welcome");
        CHECK(pair.client_read() == "welcome");
    }
}

TEST_CASE("the self-check finds any difference from what OpenSSL has sealed") {
    SwitchPair pair({.idle = TlsSession::Idle::openssl});
    const auto outcome_with = [&](std::string_view label) {
        TlsSwitch notes;  // that has heard something else than what OpenSSL has done
        notes.on_secret(std::string(label) + " 00 " + std::string(96, 'a'));
        notes.on_sent_record();
        const std::string sent = drained(pair.theirs.get());
        notes.on_written(as_bytes(sent));
        return notes.go_on(pair.server->ssl(), "");
    };
    CHECK(outcome_with("SERVER_TRAFFIC_SECRET_0").idle == TlsIdle::self_check);
    CHECK(outcome_with("SOMETHING_ELSE").idle == TlsIdle::self_check);
    CHECK_FALSE(outcome_with("SERVER_TRAFFIC_SECRET_0").small);
}

TEST_CASE("an answer of OpenSSL that is not known keeps its object") {
    SwitchPair pair({.idle = TlsSession::Idle::openssl});
    TlsSwitch notes;
    using namespace std::string_literals;
    notes.on_sent_message(as_bytes("\x08\x00\x00\x08\x00\x06\x00\x1c\x00\x02\x40\x00"s));
    CHECK(notes.go_on(pair.server->ssl(), "").idle == TlsIdle::extension);  // record_size_limit
}

TEST_CASE("records that the socket does not take are sent later, as they were sealed") {
    SwitchPair pair({});
    Buffer out(3'000'000, 'x');
    std::size_t sent = 0;
    std::string got;
    for (int i = 0; sent < out.size(); ++i) {
        REQUIRE(i < 10'000);
        const auto done = pair.small->send(pair.ours.get(), out, sent);
        if (done >= 0) {
            sent += static_cast<std::size_t>(done);
            if (i == 3) out += "more";
            continue;
        }
        REQUIRE(errno == EAGAIN);
        pair.small->end(pair.ours.get(), "lost");  // nothing goes ahead of what waits
        got += pair.client_read();
    }
    got += pair.client_read();
    CHECK(got.size() == 3'000'000 + (got.ends_with("more") ? 4 : 0));
}

TEST_CASE("a record that comes byte by byte is kept once, and as long as it is not whole") {
    SwitchPair pair({});
    TlsPeer peer(Suite::aes_256_gcm, pair.secrets.of_client, pair.secrets.of_server);
    const std::string text(5000, 'x');
    const std::string bytes = peer.seal(record::data, text);
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
        REQUIRE(::send(pair.theirs.get(), bytes.data() + i, 1, 0) == 1);
        CHECK(pair.read().empty());
        CHECK(pair.small->kept() > i);
        CHECK(pair.small->kept() < 2 * i + 64);
        CHECK_FALSE(pair.small->has_more());
    }
    REQUIRE(::send(pair.theirs.get(), bytes.data() + bytes.size() - 1, 1, 0) == 1);
    CHECK(pair.read() == text);
    CHECK(pair.small->kept() == 0);
}

TEST_CASE("many small records are taken in several calls, and none waits for the socket") {
    SwitchPair pair({});
    TlsPeer peer(Suite::aes_256_gcm, pair.secrets.of_client, pair.secrets.of_server);
    const auto send = [&](int records) {
        std::string bytes;
        for (int i = 0; i < records; ++i) bytes += peer.seal(record::data, "x");
        REQUIRE(::send(pair.theirs.get(), bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()));
    };
    std::string buffer(64 * 1024, '\0');
    std::size_t read = 0;
    const auto receive = [&] {
        const auto size = pair.small->receive(
            pair.ours.get(), reinterpret_cast<std::uint8_t*>(buffer.data()), buffer.size());
        CHECK(size <= 128);
        if (size > 0) read += static_cast<std::size_t>(size);
    };
    SUBCASE("more than one read of the socket takes") {
        send(2000);
        do receive();
        while (pair.small->has_more());
        CHECK(read == 2000);
    }
    SUBCASE("the last one arrives while others wait to be opened") {
        send(150);
        receive();
        CHECK(read == 128);
        send(1);
        do receive();
        while (pair.small->has_more());
        CHECK(read == 151);
    }
}

TEST_CASE("the peer is told what was wrong with its record, and the server sends nothing more") {
    SwitchPair pair({});
    TlsPeer peer(Suite::aes_256_gcm, pair.secrets.of_client, pair.secrets.of_server);
    std::string stream = peer.seal(record::data, "good");
    stream += peer.seal(record::data, "evil");
    stream.back() = static_cast<char>(stream.back() ^ 1);
    REQUIRE(::send(pair.theirs.get(), stream.data(), stream.size(), 0) > 0);
    std::string buffer(64 * 1024, '\0');
    auto* const at = reinterpret_cast<std::uint8_t*>(buffer.data());
    CHECK(pair.small->receive(pair.ours.get(), at, buffer.size()) == 4);
    CHECK(pair.small->has_more());
    CHECK(pair.small->receive(pair.ours.get(), at, buffer.size()) == -1);
    CHECK(errno == EPROTO);
    Buffer out = "not for it";
    CHECK(pair.small->send(pair.ours.get(), out, 0) == -1);
    CHECK(errno == EPIPE);
    pair.small->end(pair.ours.get(), "nor this");
    std::string sent = drained(pair.theirs.get());
    CHECK(peer.open_all(sent).empty());
    REQUIRE(peer.alert());
    CHECK(int{*peer.alert()} == 20);  // bad_record_mac
}

namespace {

/// What both kinds of server make of the same records.
struct Verdict {
    std::string read;
    int end = -1;
    std::string sent;
    std::optional<std::uint8_t> alert;
};

/// A random stream of records, mostly good ones.
std::string random_records(TlsPeer& peer, std::mt19937& random) {
    std::string bytes;
    const auto text = [&] { return std::string(1 + random() % 300, static_cast<char>(random())); };
    const auto records = 1 + random() % 12;
    for (std::size_t i = 0; i < records; ++i) {
        switch (random() % 24) {
            case 0: bytes += peer.update_keys(random() % 2 == 0); break;
            case 1: bytes += peer.seal(record::data, "", random() % 9); break;
            case 2: bytes += peer.seal(record::alert, std::string_view("\1\x5a", 2)); break;
            case 3:
                bytes += peer.seal(record::handshake, std::string_view("\x18\0\0", 3));
                bytes += peer.seal(record::handshake, std::string_view("\1\0", 2));
                if (!peer.of_client().update()) return bytes;
                break;
            case 4: {
                std::string bad = peer.seal(record::data, text());
                const auto at = 5 + random() % (bad.size() - 5);
                bad[at] = static_cast<char>(bad[at] ^ 1 << random() % 8);
                bytes += bad;
                break;
            }
            case 5:
                bytes += peer.seal(static_cast<std::uint8_t>(24 + random() % 200), text());
                break;
            case 6: bytes += peer.seal(record::alert, std::string_view("\1\0", 2)); break;
            case 7: bytes += peer.seal(record::alert, std::string_view("\2\x28", 2)); break;
            case 8: bytes += peer.seal_inner(std::string(1 + random() % 9, '\0')); break;
            default: bytes += peer.seal(record::data, text(), random() % 40);
        }
    }
    return bytes;
}

Verdict verdict(TlsSession::Idle idle, Suite suite, unsigned seed) {
    SwitchPair pair({.suite = suite, .idle = idle});
    TlsPeer peer(suite, pair.secrets.of_client, pair.secrets.of_server);
    std::mt19937 random(seed);
    std::string bytes = random_records(peer, random);
    Verdict verdict;
    while (!bytes.empty() && verdict.end == -1) {
        const auto size = std::min<std::size_t>(1 + random() % 700, bytes.size());
        REQUIRE(::send(pair.theirs.get(), bytes.data(), size, 0) == static_cast<ssize_t>(size));
        bytes.erase(0, size);
        verdict.read += pair.read();
        verdict.end = pair.end;
        if (random() % 4 == 0 && verdict.end == -1) pair.send("tick");
    }
    pair.close();
    std::string sent = drained(pair.theirs.get());
    verdict.sent = peer.open_all(sent);
    verdict.alert = peer.alert();
    CHECK(sent.empty());
    return verdict;
}

}  // namespace

TEST_CASE("both kinds of server make the same of the same records") {
    for (unsigned seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        const auto suite = static_cast<Suite>(seed % suites);
        const auto small = verdict(TlsSession::Idle::small, suite, seed);
        const auto kept = verdict(TlsSession::Idle::openssl, suite, seed);
        CHECK(small.read == kept.read);
        CHECK(small.end == kept.end);
        CHECK(small.sent == kept.sent);
        CHECK(int{small.alert.value_or(0xff)} == int{kept.alert.value_or(0xff)});
    }
}
