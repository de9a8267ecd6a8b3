#include "server/transport/tls/tls_records.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/transport/tls/key_pool.h"
#include "tests/support/records_check.h"
#include "tests/support/tls_peer.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

using Alert = TlsRecords::Alert;
using End = TlsRecords::End;

constexpr Suite all_suites[] = {Suite::aes_128_gcm, Suite::aes_256_gcm, Suite::chacha20_poly1305};

/// A server's records after its handshake, and the client's.
struct RecordPair {
    explicit RecordPair(Suite suite = Suite::aes_128_gcm,
                        std::size_t most = TlsRecords::most_content)
        : peer(suite, TlsPeer::secret(1), TlsPeer::secret(2)),
          server(peer.keys_of_server(), most) {}
    /// Both begin with these numbers.
    RecordPair(std::uint64_t of_client, std::uint64_t of_server)
        : peer(Suite::aes_128_gcm, TlsPeer::secret(1), TlsPeer::secret(2)), server([&] {
              TlsKeys keys = peer.keys_of_server();
              keys.of_client().set_sequence(of_client);
              keys.of_server().set_sequence(of_server);
              return TlsRecords(std::move(keys));
          }()) {
        peer.of_client().set_sequence(of_client);
        peer.of_server().set_sequence(of_server);
    }

    /// The server reads this, whatever it kept before; returns what it makes of it.
    std::string read(std::string_view bytes) {
        kept += bytes;
        std::string content;
        do {
            const auto [consumed, plain] =
                server.open({reinterpret_cast<std::uint8_t*>(kept.data()), kept.size()});
            content += kept.substr(0, plain);
            kept.erase(0, consumed);
        } while (server.is_stopped());
        return content;
    }

    /// The alert that the server sends.
    std::optional<Alert> alert() {
        std::string sent;
        REQUIRE(server.seal_end(sent));
        peer.open_all(sent);
        REQUIRE(sent.empty());
        if (!peer.alert()) return std::nullopt;
        return static_cast<Alert>(*peer.alert());
    }

    /// What the client gets when the server sends this.
    std::string send(std::string_view content) {
        std::string sent;
        REQUIRE(server.seal(content, sent));
        std::string got = peer.open_all(sent);
        REQUIRE(sent.empty());
        return got;
    }

    TlsPeer peer;
    TlsRecords server;
    std::string kept{};
};

/// What becomes of these bytes of the client's, behind a record with "good".
void check_refused(RecordPair& pair, const std::string& bytes, Alert alert) {
    CHECK(pair.read(bytes).empty());
    CHECK(pair.server.end() == End::fault);
    CHECK(pair.alert() == alert);
}

/// The same in a connection of its own, after something good.
void check_refused(std::uint8_t type, std::string_view content, Alert alert) {
    RecordPair pair;
    REQUIRE(pair.read(pair.peer.seal(record::data, "good")) == "good");
    check_refused(pair, pair.peer.seal(type, content), alert);
}

TlsPeer::Secret secret_of(const char* hex) {
    const std::string bytes = wire(hex);
    TlsPeer::Secret secret{};
    std::copy(bytes.begin(), bytes.end(), secret.begin());
    return secret;
}

}  // namespace

TEST_CASE("records are those of RFC 8448, section 3") {
    TlsPeer peer(Suite::aes_128_gcm,
                 secret_of("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"),
                 secret_of("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"));
    TlsKeys keys = peer.keys_of_server();
    const auto use = keys.of_server().use_once();
    REQUIRE(use);
    CHECK(std::string(reinterpret_cast<const char*>(use->key), 16) ==
          wire("9f02283b6c9c07efc26bb9f2ac92e356"));
    CHECK(std::string(use->nonce.begin(), use->nonce.end()) == wire("cf782b88dd83549aadf1e984"));
    TlsRecords server(std::move(keys));  // the ticket had the number 0

    std::string text;
    for (char c = 0; c < 50; ++c) text += c;
    std::string from_client = wire(
        "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a"
        "20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4"
        "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3");
    const auto opened =
        server.open({reinterpret_cast<std::uint8_t*>(from_client.data()), from_client.size()});
    CHECK(from_client.substr(0, opened.content) == text);
    CHECK(server.end() == End::closed);

    std::string from_server;
    REQUIRE(server.seal(text, from_server));
    REQUIRE(server.seal_end(from_server));
    CHECK(
        from_server ==
        wire("17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc60"
             "2dcb501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d"
             "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9"));
}

TEST_CASE("each side opens the records that the other seals, with each suite") {
    for (const Suite suite : all_suites) {
        CAPTURE(static_cast<int>(suite));
        RecordPair pair(suite);
        std::string both = pair.peer.seal(record::data, "hello");
        both += pair.peer.seal(record::data, "!");
        CHECK(pair.read(both) == "hello!");
        CHECK(pair.send("welcome") == "welcome");
        CHECK(pair.read(pair.peer.seal(record::data, "padded", 100)) == "padded");
        const std::string much(100'000, 'x');
        CHECK(pair.send(much) == much);
        CHECK(pair.read(pair.peer.seal(record::data, std::string(1 << 14, 'y'))).size() == 1 << 14);
        CHECK(pair.server.end() == End::none);
    }
}

TEST_CASE("a record with any of its bits flipped is refused, and nothing of it is used") {
    for (const Suite suite : all_suites) {
        const std::size_t bits = 8 * (TlsRecords::overhead + 4);
        for (std::size_t bit = 0; bit < bits; ++bit) {
            CAPTURE(bit);
            RecordPair pair(suite);
            const std::string good = pair.peer.seal(record::data, "good");
            std::string bad = pair.peer.seal(record::data, "evil");
            REQUIRE(8 * bad.size() == bits);
            bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
            CHECK(pair.read(good + bad) == "good");
            const std::size_t length = std::size_t(static_cast<std::uint8_t>(bad[3])) << 8 |
                                       static_cast<std::uint8_t>(bad[4]);
            if (bit / 8 == 0) {
                CHECK(pair.alert() == Alert::unexpected_message);
            } else if (bit / 8 <= 2) {
                CHECK(pair.alert() == Alert::protocol_version);
            } else if (length > (1 << 14) + 256) {
                CHECK(pair.alert() == Alert::record_overflow);
            } else {
                pair.read(std::string(length, 'x'));  // it was waited for, if it became longer
                CHECK(pair.alert() == Alert::bad_record_mac);
            }
            CHECK(pair.server.end() == End::fault);
        }
    }
}

TEST_CASE("records may be cut anywhere") {
    const auto stream_of = [](TlsPeer& peer) {
        std::string stream = peer.seal(record::data, "one");
        stream += peer.update_keys(true);
        stream += peer.seal(record::handshake, std::string_view("\x18\x00", 2));
        stream += peer.seal(record::handshake, std::string_view("\x00\x01", 2));
        stream += peer.seal(record::handshake, std::string_view("\x00", 1));
        REQUIRE(peer.of_client().update());
        stream += peer.seal(record::data, "two");
        return stream;
    };
    RecordPair whole;
    const std::size_t size = stream_of(whole.peer).size();
    for (std::size_t cut = 0; cut <= size; ++cut) {
        CAPTURE(cut);
        RecordPair pair;
        const std::string stream = stream_of(pair.peer);
        std::string content = pair.read(stream.substr(0, cut));
        content += pair.read(stream.substr(cut));
        CHECK(content == "onetwo");
        CHECK(pair.server.end() == End::none);
    }
}

TEST_CASE("a record that comes again, too early or never is noticed") {
    RecordPair again;
    const std::string record_of_it = again.peer.seal(record::data, "x");
    CHECK(again.read(record_of_it) == "x");
    check_refused(again, record_of_it, Alert::bad_record_mac);

    RecordPair swapped;
    const std::string first = swapped.peer.seal(record::data, "1");
    const std::string second = swapped.peer.seal(record::data, "2");
    check_refused(swapped, second + first, Alert::bad_record_mac);

    RecordPair lost;
    lost.peer.seal(record::data, "1");
    check_refused(lost, lost.peer.seal(record::data, "2"), Alert::bad_record_mac);

    RecordPair old_key;
    const std::string update = old_key.peer.update_keys();
    RecordPair other;
    other.peer.seal(record::data, "");
    check_refused(old_key, update + other.peer.seal(record::data, "x"), Alert::bad_record_mac);
}

TEST_CASE("a record that is not encrypted is refused from its header alone") {
    for (const auto& [header, alert] : std::vector<std::pair<const char*, Alert>>{
             {"14 03 03 00 01", Alert::unexpected_message},  // change_cipher_spec
             {"15 03 03 00 02", Alert::unexpected_message},  // an alert that is not encrypted
             {"16 03 03 00 20", Alert::unexpected_message},  // a handshake message
             {"80 03 03 00 20", Alert::unexpected_message},
             {"17 03 01 00 20", Alert::protocol_version},
             {"17 03 04 00 20", Alert::protocol_version},
             {"17 03 03 41 01", Alert::record_overflow},
             {"17 03 03 ff ff", Alert::record_overflow},
             {"17 03 03 00 00", Alert::bad_record_mac},
             {"17 03 03 00 10", Alert::bad_record_mac}}) {
        CAPTURE(header);
        RecordPair pair;
        check_refused(pair, wire(header), alert);
    }
}

TEST_CASE("a record may not hold more than what was negotiated, with or without padding") {
    RecordPair just;
    CHECK(just.read(just.peer.seal(record::data, std::string(100, 'x'), (1 << 14) - 100)).size() ==
          100);
    RecordPair padded;
    check_refused(padded, padded.peer.seal(record::data, "x", 1 << 14), Alert::record_overflow);
    RecordPair longer;
    check_refused(longer, longer.peer.seal(record::data, std::string((1 << 14) + 1, 'x')),
                  Alert::record_overflow);

    RecordPair small(Suite::aes_128_gcm, 512);
    CHECK(small.read(small.peer.seal(record::data, std::string(512, 'x'), 600)).size() == 512);
    std::string sent;
    REQUIRE(small.server.seal(std::string(1000, 'x'), sent));
    CHECK(sent.size() == 1000 + 2 * TlsRecords::overhead);
    CHECK(small.peer.open_all(sent).size() == 1000);
    check_refused(small, small.peer.seal(record::data, std::string(513, 'x')),
                  Alert::record_overflow);
}

TEST_CASE("an inner type that is not known, or is not there, is refused") {
    for (const std::uint8_t type : std::initializer_list<std::uint8_t>{1, 20, 24, 25, 255})
        check_refused(type, "x", Alert::unexpected_message);
    RecordPair nothing;
    check_refused(nothing, nothing.peer.seal_inner(std::string(10, '\0')),
                  Alert::unexpected_message);
}

TEST_CASE("an update of keys is the only handshake message that may come") {
    const auto unexpected = Alert::unexpected_message;
    for (const int type : {0, 1, 2, 4, 5, 8, 11, 13, 15, 20, 254})
        check_refused(record::handshake, std::string(1, static_cast<char>(type)) + "...",
                      unexpected);
    check_refused(record::handshake, "", unexpected);
    check_refused(record::handshake, wire("18 00 00 00"), Alert::decode_error);
    check_refused(record::handshake, wire("18 00 00 02 00 00"), Alert::decode_error);
    check_refused(record::handshake, wire("18 01 00 01 00"), Alert::decode_error);
    check_refused(record::handshake, wire("18 00 00 01 02"), Alert::illegal_parameter);
    check_refused(record::handshake, wire("18 00 00 01 00 18"), unexpected);
    check_refused(record::handshake, wire("18 00 00 01 00 18 00 00 01 00"), unexpected);
}

TEST_CASE("nothing may come within an update of keys") {
    for (const std::uint8_t type : {record::data, record::alert}) {
        RecordPair pair;
        CHECK(pair.read(pair.peer.seal(record::handshake, wire("18 00"))).empty());
        CHECK(pair.server.end() == End::none);
        check_refused(pair, pair.peer.seal(type, std::string_view("\1\0", 2)),
                      Alert::unexpected_message);
    }
}

TEST_CASE("requests for an update of keys have one answer, before the next data") {
    for (const Suite suite : all_suites) {
        RecordPair pair(suite);
        for (int i = 0; i < 5; ++i) pair.read(pair.peer.update_keys(true));
        CHECK(pair.read(pair.peer.seal(record::data, "new")) == "new");
        CHECK(pair.send("one") == "one");
        CHECK(pair.peer.key_updates() == 1);
        CHECK(pair.send("two") == "two");
        pair.read(pair.peer.update_keys(false));
        CHECK(pair.send("three") == "three");
        CHECK(pair.peer.key_updates() == 1);
    }
}

TEST_CASE("our own key is updated long before it is used up") {
    RecordPair pair(0, TlsRecords::records_of_a_key - 2);
    for (int i = 0; i < 5; ++i) CHECK(pair.send("x") == "x");
    CHECK(pair.peer.key_updates() == 1);
    CHECK(pair.peer.of_server().sequence() == 3);
}

TEST_CASE("no record has a number twice, not even the last one") {
    RecordPair sends(0, UINT64_MAX);
    std::string sent;
    CHECK_FALSE(sends.server.seal("x", sent));
    CHECK(sent.empty());
    RecordPair reads(UINT64_MAX, 0);
    check_refused(reads, wire("17 03 03 00 20") + std::string(32, 'x'), Alert::internal_error);
}

TEST_CASE("records without data are legal, but not too many in a row") {
    RecordPair pair;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 31; ++i)
            CHECK(pair.read(i % 2 == 0 ? pair.peer.seal(record::data, "", 5)
                                       : pair.peer.update_keys())
                      .empty());
        CHECK(pair.read(pair.peer.seal(record::data, "x")) == "x");
    }
    CHECK(pair.server.end() == End::none);
    for (int i = 0; i < 31; ++i) pair.read(pair.peer.update_keys());
    CHECK_FALSE(pair.server.is_flooded());
    check_refused(pair, pair.peer.update_keys(), Alert::unexpected_message);
    CHECK(pair.server.is_flooded());
}

TEST_CASE("one call opens a bounded number of records") {
    RecordPair pair;
    std::string stream;
    for (int i = 0; i < 20; ++i) stream += pair.peer.update_keys();
    const auto opened =
        pair.server.open({reinterpret_cast<std::uint8_t*>(stream.data()), stream.size()});
    CHECK(pair.server.is_stopped());
    CHECK(pair.server.taken_without_data() == 8);
    CHECK(opened.consumed == stream.size() * 8 / 20);

    RecordPair tiny;
    stream.clear();
    for (int i = 0; i < 1000; ++i) stream += tiny.peer.seal(record::data, "x");
    CHECK(
        tiny.server.open({reinterpret_cast<std::uint8_t*>(stream.data()), stream.size()}).content ==
        128);
    CHECK(tiny.server.taken() == 128);
}

TEST_CASE("close_notify ends what is read, and what came before it counts") {
    RecordPair pair;
    std::string stream = pair.peer.seal(record::data, "last");
    stream += pair.peer.seal(record::alert, std::string_view("\1\0", 2));
    stream += pair.peer.seal(record::data, "late");
    CHECK(pair.read(stream) == "last");
    CHECK(pair.server.end() == End::closed);
    CHECK(pair.send("bye") == "bye");
    CHECK(pair.alert() == Alert::close_notify);
}

TEST_CASE("after another alert the peer counts as gone, and is sent nothing more") {
    for (const std::string_view alert : {"\x02\x28", "\x01\x28", "\x02\x5a"}) {
        RecordPair pair;
        CHECK(pair.read(pair.peer.seal(record::alert, alert)).empty());
        if (alert[1] == '\x5a') continue;  // user_canceled
        CHECK(pair.server.end() == End::gone);
        std::string sent;
        CHECK(pair.server.seal_end(sent));
        CHECK(sent.empty());
    }
    check_refused(record::alert, "", Alert::unexpected_message);
    check_refused(record::alert, "\x02", Alert::decode_error);
    check_refused(record::alert, std::string_view("\1\0\1", 3), Alert::decode_error);
}

TEST_CASE("user_canceled is passed over, some times") {
    RecordPair pair;
    for (int i = 0; i < 4; ++i) pair.read(pair.peer.seal(record::alert, "\x01\x5a"));
    CHECK(pair.read(pair.peer.seal(record::data, "x")) == "x");
    for (int i = 0; i < 4; ++i) pair.read(pair.peer.seal(record::alert, "\x01\x5a"));
    check_refused(pair, pair.peer.seal(record::alert, "\x01\x5a"), Alert::unexpected_message);
}

TEST_CASE("a random conversation with updates of keys on both sides arrives whole") {
    std::mt19937 random(1);  // NOLINT: the same each time
    for (const Suite suite : all_suites) {
        RecordPair pair(suite);
        for (int i = 0; i < 2000; ++i) {
            const std::string text(1 + random() % 40, static_cast<char>('a' + i % 26));
            if (random() % 7 == 0) pair.read(pair.peer.update_keys(random() % 2 == 0));
            CHECK(pair.read(pair.peer.seal(record::data, text, random() % 20)) == text);
            if (random() % 3 != 0) CHECK(pair.send(text) == text);
        }
        CHECK(pair.peer.key_updates() > 10);
    }
}

TEST_CASE("invariants of records hold for random ones") {
    std::mt19937 random(3);  // NOLINT: the same each time
    for (int i = 0; i < 1500; ++i) {
        std::vector<std::uint8_t> script(random() % 200);
        std::ranges::generate(script, [&] { return static_cast<std::uint8_t>(random()); });
        CAPTURE(i);
        const char* const broken = broken_records_promise(script);
        CHECK_MESSAGE(broken == nullptr, broken);
    }
}

TEST_CASE("keys lie in mappings of their own, which go with the last of them") {
    KeyPool pool;
    std::vector<std::uint8_t*> slots;
    for (const std::size_t size : KeyPool::sizes)
        for (int i = 0; i < 1000; ++i) {
            slots.push_back(pool.take(size));
            REQUIRE(slots.back());
            CHECK(std::all_of(slots.back(), slots.back() + size,
                              [](std::uint8_t byte) { return byte == 0; }));
            std::fill_n(slots.back(), size, std::uint8_t{0xAA});
        }
    const std::size_t most = pool.mapped();
    CHECK(most < 2 * 1000 * (136 + 168 + 200));
    std::shuffle(slots.begin(), slots.end(), std::mt19937(2));  // NOLINT: the same each time
    for (std::uint8_t* const slot : slots) pool.give_back(slot);
    CHECK(pool.mapped() < most);
    CHECK(pool.mapped() <= 3 * 64 * 1024);
}

TEST_CASE("keys that are given back are wiped") {
    KeyPool pool;
    std::uint8_t* const other = pool.take(200);  // or the mapping would go
    std::uint8_t* const slot = pool.take(200);
    std::fill_n(slot, 200, std::uint8_t{0xAA});
    pool.give_back(slot);
    constexpr std::size_t link = sizeof(void*);  // to the next that is free
    CHECK(std::all_of(slot + link, slot + 200, [](std::uint8_t byte) { return byte == 0; }));
    pool.give_back(other);
}
