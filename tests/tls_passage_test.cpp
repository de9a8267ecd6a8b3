// TLS 1.3 goes on in another process: with its keys and numbers, and with what is half done.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "server/base/files/unique_fd.h"
#include "server/transport/tls/small_tls.h"
#include "server/upgrade/record_codec.h"
#include "tests/support/tls_peer.h"

using namespace pulsegate;

namespace {

/// A server and its client; the TLS of the server passes to another one at each step.
class PassingServer {
public:
    explicit PassingServer(Suite suite)
        : peer(suite, TlsPeer::secret(1), TlsPeer::secret(2)),
          tls_(std::make_unique<SmallTls>(TlsRecords(peer.keys_of_server()), "")) {
        int both[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both) == 0);
        ours_ = UniqueFd(both[0]);
        theirs_ = UniqueFd(both[1]);
    }

    void pass() {
        REQUIRE(tls_->may_pass());
        ClientRecord record;
        record.connection.tls = tls_->describe();
        const auto passed = decode(encode(record));
        REQUIRE(passed);
        tls_ = SmallTls::adopt(*passed->connection.tls);
        REQUIRE(tls_);
        CHECK(tls_->describe() == *record.connection.tls);
    }
    void come(std::string_view bytes) {
        REQUIRE(::send(theirs_.get(), bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()));
    }
    std::string receive() {
        std::string all;
        std::array<std::uint8_t, 64 * 1024> buffer;
        while (true) {
            const auto size = tls_->receive(ours_.get(), buffer.data(), buffer.size());
            if (size < 0 && errno == EINTR) continue;
            if (size <= 0) return all;
            all.append(reinterpret_cast<const char*>(buffer.data()),
                       static_cast<std::size_t>(size));
        }
    }
    bool send(Buffer& out, std::size_t& sent) {
        while (sent < out.size()) {
            const auto size = tls_->send(ours_.get(), out, sent);
            if (size < 0) return false;
            sent += static_cast<std::size_t>(size);
        }
        return true;
    }
    /// What the client has got.
    std::string sent() {
        std::string all(1 << 20, '\0');
        const auto size = ::recv(theirs_.get(), all.data(), all.size(), 0);
        all.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        return all;
    }
    int socket() const { return ours_.get(); }

    TlsPeer peer;

private:
    UniqueFd ours_;
    UniqueFd theirs_;
    std::unique_ptr<SmallTls> tls_;
};

constexpr Suite all_suites[] = {Suite::aes_128_gcm, Suite::aes_256_gcm, Suite::chacha20_poly1305};

}  // namespace

TEST_CASE("records are opened and sealed as if TLS had never passed to another process") {
    for (const Suite suite : all_suites) {
        PassingServer server(suite);
        for (int i = 0; i < 5; ++i) {
            const std::string text = "message " + std::to_string(i);
            server.pass();
            server.come(server.peer.seal(record::data, text));
            CHECK(server.receive() == text);
            server.pass();
            Buffer out = "answer " + text;
            std::size_t sent = 0;
            CHECK(server.send(out, sent));
            std::string got = server.sent();
            CHECK(server.peer.open_all(got) == "answer " + text);
        }
    }
}

TEST_CASE("TLS passes between any two bytes of records, of updates of keys, too") {
    PassingServer server(Suite::chacha20_poly1305);
    std::string bytes = server.peer.seal(record::data, "one");
    bytes += server.peer.update_keys(true);
    bytes += server.peer.seal(record::data, "two");
    std::string got;
    for (const char byte : bytes) {
        server.come({&byte, 1});
        got += server.receive();
        server.pass();
    }
    CHECK(got == "onetwo");
    Buffer out = "three";
    std::size_t sent = 0;
    CHECK(server.send(out, sent));
    std::string answer = server.sent();
    CHECK(server.peer.open_all(answer) == "three");
    CHECK(server.peer.key_updates() == 1);
}

TEST_CASE("sealed records that are not sent pass as they are") {
    PassingServer server(Suite::aes_128_gcm);
    const int small = 4096;
    ::setsockopt(server.socket(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    const std::string text(300'000, 'x');
    Buffer out = text;
    std::size_t sent = 0;
    std::string got;
    std::string records;
    int passes = 0;
    for (bool done = false; !done; ++passes) {
        done = server.send(out, sent);
        records += server.sent();
        out.erase(0, sent);  // as a connection does
        sent = 0;
        server.pass();
    }
    CHECK(passes > 3);
    for (std::string more = server.sent(); !more.empty(); more = server.sent()) records += more;
    CHECK(server.peer.open_all(records) == text);
}

TEST_CASE("TLS is not adopted from an impossible record") {
    PassingServer server(Suite::aes_128_gcm);
    TlsRecord good = SmallTls(TlsRecords(server.peer.keys_of_server()), "").describe();
    CHECK(SmallTls::adopt(good));
    const auto refuses = [&](auto change) {
        TlsRecord bad = good;
        change(bad);
        CHECK_FALSE(SmallTls::adopt(bad));
    };
    refuses([](TlsRecord& bad) { bad.suite = 3; });
    refuses([](TlsRecord& bad) { bad.suite = 1; });  // its secrets are longer
    refuses([](TlsRecord& bad) { bad.most_content = 0; });
    refuses([](TlsRecord& bad) { bad.most_content = 20'000; });
    refuses([](TlsRecord& bad) { bad.message_size = 5; });
    refuses([](TlsRecord& bad) { bad.client_secret = SecretBytes("short"); });
    refuses([](TlsRecord& bad) { bad.unopened.resize(60'000); });
}
