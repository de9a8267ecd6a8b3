// Records of clients as bytes: what comes back, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "server/upgrade/record_codec.h"
#include "server/upgrade/record_fields.h"
#include "tests/support/record_bytes.h"

using namespace pulsegate;

namespace {

/// Records in which each field is drawn by chance.
class RandomRecords {
public:
    explicit RandomRecords(std::uint32_t seed) : random_(seed) {}

    ClientRecord next() {
        ClientRecord record{.session = session(), .connection = connection()};
        return record;
    }

private:
    bool maybe() { return random_() % 2 == 0; }
    template <class Number>
    Number number() {
        const auto shift = random_() % 64;
        return maybe() ? Number{} : static_cast<Number>(random_() >> shift);
    }
    std::string text() {
        std::string text(maybe() ? 0 : random_() % 40, '\0');
        std::ranges::generate(text, [&] { return static_cast<char>(random_()); });
        return text;
    }
    template <class Make>
    auto some(Make make) {
        std::vector<decltype(make())> all;
        for (auto left = random_() % 4; left > 0; --left) all.push_back(make());
        return all;
    }

    MessageRecord message() {
        return {.topic = text(),
                .payload = text(),
                .properties = text(),
                .qos = number<std::uint8_t>(),
                .retain = maybe(),
                .expires = number<std::int64_t>(),
                .stamp = number<std::uint64_t>(),
                .retained = maybe(),
                .publisher = number<std::uint64_t>(),
                .sender = number<std::uint64_t>(),
                .presence_version = number<std::uint64_t>()};
    }
    DeliveryRecord delivery() {
        DeliveryRecord record{.packet_id = number<std::uint16_t>(),
                              .qos = number<std::uint8_t>(),
                              .retain = maybe(),
                              .is_from_inbox = maybe(),
                              .is_released = maybe(),
                              .waits = maybe(),
                              .perhaps_sent = maybe(),
                              .owner = number<std::uint32_t>(),
                              .stamp = number<std::uint64_t>(),
                              .identifiers = some([&] { return number<std::uint32_t>(); }),
                              .share = text()};
        if (maybe()) record.age = number<std::uint32_t>();
        if (maybe()) record.message = message();
        return record;
    }
    AuthorizationRecord authorization() {
        AuthorizationRecord record{.has_rules = maybe(), .rules = some([&] { return text(); })};
        if (maybe()) record.expiry = number<std::int64_t>();
        if (maybe()) record.token_issued = -number<std::int32_t>();
        return record;
    }
    AliasRecord alias() { return {number<std::uint16_t>(), text()}; }
    ReplayRecord replay() {
        const auto request = [&] {
            return ReplayRecord::Request{text(), number<std::uint8_t>(), number<std::uint32_t>(),
                                         number<std::uint64_t>(), maybe()};
        };
        return {.requests = some(request),
                .retained_done = maybe(),
                .after = text(),
                .shard = number<std::uint32_t>(),
                .shards = number<std::uint32_t>(),
                .position = number<std::uint64_t>()};
    }
    SessionRecord session() {
        SessionRecord record{.user = text(),
                             .client = text(),
                             .since = number<std::int64_t>(),
                             .is_stored = maybe(),
                             .expiry = number<std::uint32_t>(),
                             .version = number<std::uint8_t>(),
                             .max_packet_size = number<std::uint32_t>(),
                             .receive_maximum = number<std::uint16_t>(),
                             .wants_reasons = maybe(),
                             .takes_reasons = maybe(),
                             .last_packet_id = number<std::uint16_t>(),
                             .ack_time = number<std::uint8_t>(),
                             .password_line = number<std::uint64_t>()};
        if (maybe()) record.authorization = authorization();
        if (maybe())
            record.will = WillRecord{.message = message(),
                                     .message_expiry = number<std::uint32_t>(),
                                     .delay = number<std::uint32_t>(),
                                     .authorization = authorization()};
        record.has_aliases = maybe();
        record.most_aliases = number<std::uint16_t>();
        record.aliases_in = some([&] { return alias(); });
        record.aliases_out = some([&] { return alias(); });
        record.subscriptions = some([&] {
            return SubscriptionRecord{text(), number<std::uint8_t>(), number<std::uint32_t>()};
        });
        record.in_flight = some([&] { return delivery(); });
        record.queue = some([&] { return delivery(); });
        record.unreleased = some([&] { return number<std::uint16_t>(); });
        record.released = some([&] { return number<std::uint16_t>(); });
        if (maybe()) record.replay = replay();
        record.was_member = maybe();
        return record;
    }
    ConnectionRecord connection() {
        ConnectionRecord record{.listener = text(),
                                .peer = text(),
                                .peer_port = number<std::uint16_t>(),
                                .is_proxied = maybe(),
                                .version = number<std::uint8_t>(),
                                .silence = number<std::int64_t>(),
                                .limit = number<std::uint32_t>(),
                                .largest_packet = number<std::uint32_t>(),
                                .owed = number<std::int64_t>(),
                                .is_parked = maybe(),
                                .is_slowed = maybe(),
                                .notify_drained = maybe(),
                                .unfinished = text(),
                                .unsent = text()};
        if (maybe())
            record.websocket = WebSocketRecord{.left = number<std::uint64_t>(),
                                               .mask = number<std::uint32_t>(),
                                               .empty_frames = number<std::uint8_t>(),
                                               .is_inside_message = maybe(),
                                               .rest = text()};
        if (maybe())
            record.tls = TlsRecord{.suite = number<std::uint8_t>(),
                                   .most_content = number<std::uint16_t>(),
                                   .message_size = number<std::uint8_t>(),
                                   .without_data = number<std::uint8_t>(),
                                   .warnings = number<std::uint8_t>(),
                                   .answers_update = maybe(),
                                   .unopened = text(),
                                   .sealed = number<std::uint32_t>(),
                                   .client_number = number<std::uint64_t>(),
                                   .server_number = number<std::uint64_t>(),
                                   .client_secret = SecretBytes(text()),
                                   .server_secret = SecretBytes(text())};
        return record;
    }

    std::mt19937_64 random_;
};

/// Without its beginning and its checksum.
std::string fields_of(const ClientRecord& record) {
    const std::string bytes = encode(record);
    return bytes.substr(4, bytes.size() - 12);
}

MessageRecord some_message(const char* topic) {
    return {.topic = topic,
            .payload = std::string("a\0b", 3),
            .properties = "\x01\x01",
            .qos = 2,
            .retain = true,
            .expires = 1'800'000'000'000,
            .stamp = 0xFEDCBA9876543210,
            .retained = true,
            .publisher = 11,
            .sender = 12,
            .presence_version = 13};
}

AuthorizationRecord some_authorization() {
    return {.has_rules = true,
            .rules = {"user ann", "deny #"},
            .expiry = 1'800'000'001,
            .token_issued = -1};
}

SessionRecord full_session() {
    return {.user = "ann",
            .client = "phone",
            .since = 1'795'000'000'000,
            .is_stored = true,
            .expiry = 3600,
            .version = 5,
            .max_packet_size = 70'000,
            .receive_maximum = 20,
            .wants_reasons = true,
            .takes_reasons = true,
            .last_packet_id = 65'535,
            .ack_time = 3,
            .password_line = 14,
            .authorization = some_authorization(),
            .will = WillRecord{.message = some_message("will"),
                               .message_expiry = 60,
                               .delay = 5,
                               .authorization = some_authorization()},
            .has_aliases = true,
            .most_aliases = 16,
            .aliases_in = {{1, "room/a"}, {2, "room/b"}},
            .aliases_out = {{3, "room/c"}},
            .subscriptions = {{"room/+", 0x2D, 268'435'455}, {"#", 1, 0}},
            .in_flight = {{.packet_id = 7,
                           .qos = 2,
                           .retain = true,
                           .is_from_inbox = true,
                           .is_released = true,
                           .waits = true,
                           .perhaps_sent = true,
                           .owner = 9,
                           .age = 1500,
                           .stamp = 10,
                           .identifiers = {1, 300},
                           .share = "$share/g/room/+",
                           .message = some_message("room/x")}},
            .queue = {{.qos = 1, .stamp = 15}, {.qos = 1, .message = some_message("room/y")}},
            .unreleased = {1, 500},
            .released = {2, 3},
            .replay = ReplayRecord{.requests = {{.filter = "presence/+",
                                                 .options = 1,
                                                 .identifier = 4,
                                                 .since = 5,
                                                 .is_owed = true}},
                                   .retained_done = true,
                                   .after = "m",
                                   .shard = 1,
                                   .shards = 2,
                                   .position = 77},
            .was_member = true};
}

/// With each field that a version before this one has written.
ClientRecord full_record() {
    return {.session = full_session(),
            .connection = {.listener = "wss://0.0.0.0:8443/mqtt",
                           .peer = "2001:db8::7",
                           .peer_port = 40'000,
                           .is_proxied = true,
                           .version = 5,
                           .silence = 1234,
                           .limit = 30,
                           .largest_packet = 262'144,
                           .owed = -5,
                           .is_parked = true,
                           .is_slowed = true,
                           .notify_drained = true,
                           .unfinished = "\x30",
                           .unsent = "\xD0",
                           .websocket = WebSocketRecord{.left = 9,
                                                        .mask = 0x01020304,
                                                        .empty_frames = 1,
                                                        .is_inside_message = true,
                                                        .rest = "\x82"},
                           .tls = TlsRecord{.suite = 2,
                                            .most_content = 512,
                                            .message_size = 3,
                                            .without_data = 4,
                                            .warnings = 1,
                                            .answers_update = true,
                                            .unopened = "\x17\x03",
                                            .sealed = 8,
                                            .client_number = 0x100000000,
                                            .server_number = 6,
                                            .client_secret = SecretBytes("client's secret"),
                                            .server_secret = SecretBytes("server's secret")}}};
}

}  // namespace

TEST_CASE("a client's record comes back as it was") {
    CHECK(decode(encode({})) == ClientRecord());
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        const ClientRecord record = RandomRecords(seed).next();
        const std::string bytes = encode(record);
        CHECK(decode(bytes) == record);
        CHECK(user_of_record(bytes) == record.session.user);
    }
}

TEST_CASE("a record that is cut, too long or has any bit flipped is refused") {
    const std::string bytes = encode(RandomRecords(7).next());
    REQUIRE(bytes.size() > 200);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CHECK_FALSE(decode(bytes.substr(0, size)));
        CHECK_FALSE(user_of_record(bytes.substr(0, size)));
    }
    CHECK_FALSE(decode(bytes + '\0'));
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        std::string flipped = bytes;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
        CHECK_FALSE(decode(flipped));
    }
}

TEST_CASE("any fields with a right checksum are read or refused, and come back if they are read") {
    std::mt19937 random(1);
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        const std::string fields = fields_of(RandomRecords(seed).next());
        for (int i = 0; i < 50 && !fields.empty(); ++i) {
            std::string changed = fields;
            for (auto left = 1 + random() % 3; left > 0; --left)
                changed[random() % changed.size()] = static_cast<char>(random());
            if (random() % 4 == 0) changed.resize(random() % changed.size());
            if (const auto read = decode(sealed_record(changed)))
                CHECK(decode(encode(*read)) == read);
        }
    }
}

TEST_CASE("a field of a later version is passed over if it may be, or the record is refused") {
    const ClientRecord record = RandomRecords(3).next();
    const std::string fields = fields_of(record);
    CHECK(decode(sealed_record(fields + record_field(optional_tag | 100, "news"))) == record);
    CHECK_FALSE(decode(sealed_record(fields + record_field(100, "news"))));
    CHECK_FALSE(decode(sealed_record(fields + "x")));
    const std::string other_user = record_field(1, "ann");
    CHECK(decode(sealed_record(record_field(1, other_user)))->session.user == "ann");
    CHECK(user_of_record(sealed_record(record_field(1, other_user) + record_field(100, "news"))) ==
          "ann");
    CHECK_FALSE(
        decode(sealed_record(record_field(1, record_field(1, "ann") + record_field(99, "")))));
    CHECK(decode(sealed_record(
        record_field(1, record_field(1, "ann") + record_field(optional_tag | 99, "")))));
}

TEST_CASE("a record of an earlier version is read, and an earlier version reads ours") {
    // A new format needs the record that the last one has made of all its fields. That may be done
    // without if its number changes and oldest_state_format with it.
    const std::string before = bytes_in(PULSEGATE_SOURCE_DIR "/tests/data/client-1.hex");
    REQUIRE(!before.empty());
    CHECK(decode(before) == full_record());
    // An earlier version knows these fields, and no other one that it must know.
    CHECK(encode(full_record()) == before);
}
