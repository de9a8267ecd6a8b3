#include "server/edge/edge_frames.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "server/limits/bans.h"

using namespace pulsegate;

namespace {

ForwardedLogin some_login() {
    return {.connect = std::string("\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01p", 15),
            .address = "203.0.113.9",
            .port = 4711,
            .listener = "mqtts://0.0.0.0:8883",
            .user = "ann",
            .client = "phone",
            .password_line = ~std::uint64_t{0},
            .authorization = AuthorizationRecord{}};
}

std::string random_bytes(std::mt19937& random, std::size_t most) {
    std::string bytes(std::uniform_int_distribution<std::size_t>(0, most)(random), '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    return bytes;
}

}  // namespace

TEST_CASE("frames are taken as they were appended") {
    std::mt19937 random(1);
    std::string bytes;
    std::vector<std::string> contents;
    constexpr auto kinds = static_cast<unsigned>(EdgeFrameKind::home_ban);
    for (unsigned i = 0; i < 100; ++i) {
        contents.push_back(random_bytes(random, 300));
        append(bytes, {.kind = static_cast<EdgeFrameKind>(1 + i % kinds),
                       .home_shard = static_cast<std::uint16_t>(65'535 - i),
                       .edge_shard = static_cast<std::uint16_t>(i),
                       .number = 4'294'967'295U - i,
                       .contents = contents.back()});
    }
    std::string_view left = bytes;
    for (unsigned i = 0; i < 100; ++i) {
        const auto frame = take_edge_frame(left);
        REQUIRE(frame);
        CHECK(frame->kind == static_cast<EdgeFrameKind>(1 + i % kinds));
        CHECK(frame->home_shard == 65'535 - i);
        CHECK(frame->edge_shard == i);
        CHECK(frame->number == 4'294'967'295 - i);
        CHECK(frame->contents == contents[i]);
    }
    CHECK(left.empty());
    CHECK_FALSE(take_edge_frame(left));
}

TEST_CASE("a frame that is cut anywhere is malformed, and nothing is taken") {
    std::string bytes;
    append(bytes, {.kind = EdgeFrameKind::bytes, .number = 7, .contents = "some contents"});
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        std::string_view cut = std::string_view(bytes).substr(0, size);
        CHECK_FALSE(take_edge_frame(cut));
        CHECK(cut.size() == size);
    }
}

TEST_CASE("frames with damaged or random bytes are taken to the end or refused") {
    std::mt19937 random(2);
    std::string good;
    append(good, {.kind = EdgeFrameKind::open, .contents = encode(some_login())});
    append(good, {.kind = EdgeFrameKind::taken, .contents = "\1\2\3\4"});
    append(good, {.kind = EdgeFrameKind::end, .contents = encode_end(Cause::timeout, Reason{})});
    int taken = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::string bytes = round % 4 == 0 ? random_bytes(random, 64) : good;
        if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
        std::string_view left = bytes;
        while (const auto frame = take_edge_frame(left)) {
            ++taken;
            static_cast<void>(frame->number_at(0));
            static_cast<void>(frame->number_at(4));
            static_cast<void>(decode_end(frame->contents));
            static_cast<void>(decode_ban(frame->contents));
            static_cast<void>(decode_lift(frame->contents));
            static_cast<void>(decode_home_ban(frame->contents));
            static_cast<void>(decode_forwarded_login(frame->contents));
        }
    }
    CHECK(taken > 20'000);  // three of four inputs have a fault in one of three frames
}

TEST_CASE("numbers beyond the contents of a frame are 0") {
    std::string contents;
    append_number(contents, 0x89abcdef);
    const EdgeFrame frame{.contents = contents};
    CHECK(frame.number_at(0) == 0x89abcdef);
    CHECK(frame.number_at(1) == 0);
    CHECK(frame.number_at(4) == 0);
}

TEST_CASE("a ban and a lift arrive as they were sent") {
    for (const char* text : {"203.0.113.9", "2001:db8:1:2::/64"}) {
        const Address address = *Address::parse(text);
        const ToldBan told{.address = address, .left = 300'000'000'000, .lifts_known = 0x89abcdef};
        const auto ban = decode_ban(encode(told));
        REQUIRE(ban);
        CHECK(ban->address == address);
        CHECK(ban->left == told.left);
        CHECK(ban->lifts_known == told.lifts_known);
        const auto lift = decode_lift(encode(BanLift{.number = 7, .address = address}));
        REQUIRE(lift);
        CHECK(lift->number == 7);
        CHECK(lift->address == address);
        CHECK_FALSE(decode_ban(encode(told).substr(1)));
        CHECK_FALSE(decode_ban(encode(ToldBan{address, for_good, 0})));
    }
    CHECK_FALSE(decode_ban(""));
    CHECK_FALSE(decode_lift("\7"));
    CHECK_FALSE(decode_lift(std::string("\7\0\0\0", 4)));
}

TEST_CASE("a ban of the home arrives as it was sent") {
    for (const Millis left : {Millis{0}, Millis{300'000'000'000}, for_good}) {
        const Address address = *Address::parse("2001:db8:1:2::/64");
        const std::string sent = encode(HomeBan{address, left, left == for_good});
        const auto ban = decode_home_ban(sent);
        REQUIRE(ban);
        CHECK(ban->address == address);
        CHECK(ban->left == left);
        CHECK(ban->ordered == (left == for_good));
        CHECK_FALSE(decode_home_ban(std::string_view(sent).substr(0, 9)));
    }
    CHECK_FALSE(decode_home_ban(encode(HomeBan{*Address::parse("203.0.113.9"), for_good - 1})));
    CHECK_FALSE(decode_home_ban(""));
}

TEST_CASE("a login and an end arrive as they were sent") {
    CHECK(decode_forwarded_login(encode(some_login())) == some_login());
    CHECK(decode_forwarded_login(encode(ForwardedLogin{})) == ForwardedLogin{});
    CHECK_FALSE(decode_forwarded_login(""));
    CHECK_FALSE(decode_forwarded_login(encode(some_login()).substr(1)));
    const auto ending = decode_end(encode_end(Cause::kicked, Reason::quota_exceeded));
    REQUIRE(ending);
    CHECK(ending->cause == Cause::kicked);
    CHECK(ending->reason == Reason::quota_exceeded);
    CHECK_FALSE(decode_end(""));
    CHECK_FALSE(decode_end("\x09\x00"));
    CHECK(decode_end(std::string("\x02\x00", 2))->why == std::string("silent too long"));
}
