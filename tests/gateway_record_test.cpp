// What a gateway has in memory only, as bytes for another process: what comes back, and what is
// refused.
#include "server/upgrade/gateway_record.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "server/handover/limits_passage.h"
#include "server/limits/address_limits.h"
#include "server/limits/client_limits.h"
#include "server/upgrade/record_fields.h"
#include "tests/support/record_bytes.h"

using namespace pulsegate;

namespace {

CountsRecord some_counts() {
    return {.age = 12'345,
            .counted = {{.address = "10.0.0.7", .fingerprint = 0xFEDCBA9876543210, .present = 7},
                        {.address = "2001:db8::/64", .fingerprint = 1, .present = 1, .past = 300}}};
}

/// With each field that a version before this one has written.
GatewayRecord full_gateway() {
    return {.bans = {{.address = "192.0.2.1", .left = 0},
                     {.user = "ann",
                      .client = "phone",
                      .is_ordered = true,
                      .left = 4'000'000'000,
                      .reason = "spam"}},
            .guesses = some_counts(),
            .different_guesses = {.age = 1},
            .failures = some_counts(),
            .shards = {{.flaps = some_counts()}, {.takeovers = some_counts()}},
            .login_wait = 49'000'000,
            .ticket_keys = TicketKeysRecord{.age = 10'800'000,
                                            .present = SecretBytes("present key"),
                                            .past = SecretBytes("past key")}};
}

HistoryRecord full_history() {
    return {.shard = 1,
            .events = {{.user = 0xFEDCBA9876543210,
                        .account = 0xFEDCBA98,
                        .is_refused = true,
                        .kind = 1,
                        .time = 1'800'000'000'000,
                        .count = 3,
                        .lasted = 4000,
                        .silence = 90'000,
                        .cause = 5,
                        .reason = 0x86,
                        .version = 5,
                        .client = "phone",
                        .address = "10.0.0.7:40000",
                        .listener = "mqtt://0.0.0.0:1883",
                        .why = "user name or password is wrong"},
                       {}}};
}

/// The same record with more fields at its end.
std::string with_more(const std::string& record, const std::string& fields) {
    constexpr std::size_t checksum = 8;
    std::string bytes = record.substr(0, record.size() - checksum) + fields;
    append_checksum(bytes);
    return bytes;
}

}  // namespace

TEST_CASE("the records of a gateway and of a history come back as they were") {
    CHECK(decode_gateway(encode(GatewayRecord())) == GatewayRecord());
    CHECK(decode_gateway(encode(full_gateway())) == full_gateway());
    CHECK(decode_history(encode(HistoryRecord())) == HistoryRecord());
    CHECK(decode_history(encode(full_history())) == full_history());
}

TEST_CASE("the record has the answers to requests with a key") {
    GatewayRecord record = full_gateway();
    record.answers = {{.key = "desk publish k", .body_hash = "hash", .age = 7, .answer = "{}"},
                      {.key = "desk publish l", .body_hash = "hash", .answer = "{}"}};
    CHECK(decode_gateway(encode(record)) == record);
}

TEST_CASE("a gateway's record that is cut or has any bit flipped is refused") {
    const std::string bytes = encode(full_gateway());
    for (std::size_t size = 0; size < bytes.size(); ++size)
        CHECK_FALSE(decode_gateway(bytes.substr(0, size)));
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        std::string flipped = bytes;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
        CHECK_FALSE(decode_gateway(flipped));
    }
    CHECK_FALSE(decode_history(bytes));
    CHECK_FALSE(decode_gateway(encode(full_history())));
}

TEST_CASE("unknown fields of a later version's record are skipped if they may be") {
    const std::string gateway = encode(full_gateway());
    CHECK(decode_gateway(with_more(gateway, record_field(optional_tag | 100, "news"))) ==
          full_gateway());
    CHECK_FALSE(decode_gateway(with_more(gateway, record_field(100, "news"))));
    const std::string history = encode(full_history());
    CHECK(decode_history(with_more(history, record_field(optional_tag | 100, "news"))) ==
          full_history());
    CHECK_FALSE(decode_history(with_more(history, record_field(100, "news"))));
}

TEST_CASE("a gateway's record of an earlier version is read, and an earlier version reads ours") {
    const std::string gateway = bytes_in(PULSEGATE_SOURCE_DIR "/tests/data/gateway-1.hex");
    CHECK(decode_gateway(gateway) == full_gateway());
    CHECK(encode(full_gateway()) == gateway);
    const std::string history = bytes_in(PULSEGATE_SOURCE_DIR "/tests/data/history-1.hex");
    CHECK(decode_history(history) == full_history());
    CHECK(encode(full_history()) == history);
}

TEST_CASE("an address goes on towards its ban in the next process, and so does its ban") {
    const AddressLimitSettings settings{
        .max_connections_per_address = 0, .ban_failures = 10, .ban_time = 60'000};
    const Address guesser = *Address::parse("192.0.2.1");
    const Address banned = *Address::parse("2001:db8::1");
    AddressLimits before(settings);
    for (std::uint64_t guess = 1; guess < 10; ++guess)
        CHECK_FALSE(before.failed(guesser, guess, 5000));
    for (std::uint64_t guess = 1; guess <= 10; ++guess)
        CHECK(before.failed(banned, guess, 5000) == (guess == 10));
    REQUIRE(before.order_ban(*Address::parse("10.0.0.7"), 5000, for_good, "spam"));
    GatewayRecord record;
    describe(before, record, 6000);
    AddressLimits after(settings);
    adopt(after, *decode_gateway(encode(record)), 100);  // its clock has just begun
    for (const BanRecord& each : record.bans)
        CHECK(after.adopt(*Address::parse(each.address), ban_of(each), 100));
    CHECK(after.banned(banned, 59'099));
    CHECK_FALSE(after.banned(banned, 59'101));
    CHECK(after.banned(*Address::parse("10.0.0.7"), 1'000'000'000)->reason == "spam");
    CHECK_FALSE(after.failed(guesser, 1, 100));  // as before: a phone that repeats its password
    CHECK(after.failed(guesser, 10, 100));
}

TEST_CASE("a client goes on towards its ban in the next process, and so does its ban") {
    const ClientLimitSettings settings{.ban_flaps = 3, .duel_takeovers = 1, .ban_time = 60'000};
    ClientLimits before(settings);
    for (int i = 0; i < 2; ++i) CHECK_FALSE(before.broke_off("ann", "phone", 1000));
    for (int i = 0; i < 3; ++i) CHECK(before.broke_off("bob", "phone", 1000) == (i == 2));
    CHECK(before.pause_before_takeover("cat", "phone", 1000) == 0);
    GatewayRecord record;
    describe(before, record, 1000);
    ClientLimits after(settings);
    REQUIRE(record.shards.size() == 1);
    // Also if it is told twice, by way of a gateway with another number of shards.
    for (int i = 0; i < 2; ++i) adopt(after, record.shards.front(), 0);
    for (const BanRecord& each : record.bans) CHECK(after.adopt(ban_of(each), 0));
    CHECK(after.banned("bob", "phone", 59'999));
    CHECK_FALSE(after.banned("bob", "tablet", 0));
    CHECK_FALSE(after.banned("ann", "phone", 0));
    CHECK(after.pause_before_takeover("cat", "phone", 0) > 0);
    CHECK(after.broke_off("ann", "phone", 0));
}
