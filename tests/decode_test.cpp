#include "protocol/decode.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "protocol/encode.h"
#include "tests/support/codec_check.h"
#include "tests/support/sanitized.h"
#include "tests/support/vectors.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// Decodes a packet in notation and keeps its bytes, which the packet views.
template <class Body>
class Received {
public:
    Received(std::string_view notation, Version version, Sender sender = Sender::client)
        : bytes_(wire(notation)), decoded_(decode(as_bytes(bytes_), version, sender)) {
        const auto* error = std::get_if<DecodeError>(&decoded_);
        REQUIRE_MESSAGE(!error, std::string_view(error->cause));
    }
    Received(const Received&) = delete;

    const Body* operator->() const { return &std::get<Body>(std::get<Packet>(decoded_)); }

private:
    std::string bytes_;
    Decoded decoded_;
};

Frame::Status framed(std::string_view bytes) {
    const ExactCopy copy(as_bytes(bytes));
    return next_frame(copy.bytes(), unlimited).status;
}

DecodeError refused(std::string_view bytes, Version version, Sender sender) {
    const ExactCopy copy(as_bytes(bytes));
    const Frame frame = next_frame(copy.bytes(), unlimited);
    if (frame.status == Frame::Status::bad) return frame.error;
    const Decoded decoded = decode(copy.bytes(), version, sender);
    const auto* error = std::get_if<DecodeError>(&decoded);
    return error ? *error : DecodeError{Reason::success, "not refused"};
}

}  // namespace

TEST_CASE("every packet of both versions is decoded in each direction it may go") {
    for (const ValidVector& vector : valid_vectors()) {
        CAPTURE(vector.what);
        CAPTURE(vector.notation);
        const std::string bytes = wire(vector.notation);
        const ExactCopy copy(as_bytes(bytes));
        const Frame frame = next_frame(copy.bytes(), unlimited);
        CHECK(frame.status == Frame::Status::complete);
        CHECK(frame.size == bytes.size());

        const Decoded decoded = decode(copy.bytes(), vector.version, vector.sender);
        const auto* error = std::get_if<DecodeError>(&decoded);
        CHECK_MESSAGE(!error, std::string_view(error->cause));
    }
}

TEST_CASE("a packet that breaks a rule is refused with its reason and its cause") {
    for (const BadVector& vector : bad_vectors()) {
        CAPTURE(vector.rule);
        CAPTURE(vector.notation);
        const DecodeError error = refused(wire(vector.notation), vector.version, vector.sender);
        CHECK(name(error.reason) == name(vector.reason));
        CHECK(std::string_view(error.cause) == vector.cause);
    }
}

TEST_CASE("a packet that arrives byte by byte is incomplete until its last byte") {
    for (const ValidVector& vector : valid_vectors()) {
        CAPTURE(vector.notation);
        const std::string bytes = wire(vector.notation);
        for (std::size_t size = 0; size < bytes.size(); ++size) {
            CAPTURE(size);
            const std::string prefix = bytes.substr(0, size);
            const ExactCopy copy(as_bytes(prefix));
            const Frame frame = next_frame(copy.bytes(), unlimited);
            REQUIRE(frame.status == Frame::Status::incomplete);
            REQUIRE((frame.size == 0 || frame.size == bytes.size()));
            REQUIRE(std::holds_alternative<DecodeError>(
                decode(copy.bytes(), vector.version, vector.sender)));
        }
    }
}

TEST_CASE("a bad packet that arrives byte by byte is never taken for a whole one") {
    for (const BadVector& vector : bad_vectors()) {
        CAPTURE(vector.notation);
        const std::string bytes = wire(vector.notation);
        for (std::size_t size = 0; size < bytes.size(); ++size)
            REQUIRE(framed(bytes.substr(0, size)) != Frame::Status::complete);
    }
}

TEST_CASE("a packet cut short inside a right frame is refused") {
    for (const ValidVector& vector : valid_vectors()) {
        const std::string bytes = wire(vector.notation);
        const std::size_t header = bytes.size() > 129 ? 3 : 2;
        const std::string body = bytes.substr(header);
        for (std::size_t size = 0; size < body.size(); ++size) {
            std::string cut = wire(hex(bytes.substr(0, 1)) + " r" + std::to_string(size));
            cut += body.substr(0, size);
            // Where a payload ends, or an option begins, a shorter packet may be just as right.
            CHECK(broken_promise(as_bytes(cut), vector.version, vector.sender) == nullptr);
        }
    }
}

TEST_CASE("a frame is found at the front of a longer stream") {
    const std::string bytes = wire("c0 00 | 30 r s'a' 'x' | c0 00");
    const Frame first = next_frame(as_bytes(bytes), unlimited);
    CHECK(first.status == Frame::Status::complete);
    CHECK(first.size == 2);
    CHECK(next_frame(as_bytes(bytes).subspan(2), unlimited).size == 6);
}

TEST_CASE("an incomplete frame tells its size as soon as its header is there") {
    CHECK(next_frame({}, unlimited).status == Frame::Status::incomplete);
    CHECK(next_frame(as_bytes(wire("30")), unlimited).size == 0);
    CHECK(next_frame(as_bytes(wire("30 80")), unlimited).size == 0);
    CHECK(next_frame(as_bytes(wire("30 80 01")), unlimited).size == 131);
    CHECK(next_frame(as_bytes(wire("30 r268435455")), unlimited).size == 268'435'460);
}

TEST_CASE("a packet that is too large is refused before its body arrives") {
    const std::string header = wire("30 r100");
    CHECK(next_frame(as_bytes(header), 102).status == Frame::Status::incomplete);
    const Frame frame = next_frame(as_bytes(header), 101);
    CHECK(frame.status == Frame::Status::bad);
    CHECK(frame.error.reason == Reason::packet_too_large);
}

TEST_CASE("a bad first byte is refused before its length arrives") {
    CHECK(framed(wire("00")) == Frame::Status::bad);
    CHECK(framed(wire("36")) == Frame::Status::bad);
    CHECK(framed(wire("38")) == Frame::Status::bad);
    CHECK(framed(wire("80")) == Frame::Status::bad);
}

TEST_CASE("a fifth length byte is refused when the fourth announces it") {
    CHECK(framed(wire("30 80 80 80")) == Frame::Status::incomplete);
    CHECK(framed(wire("30 80 80 80 80")) == Frame::Status::bad);
}

TEST_CASE("bytes that are more or less than one packet are refused") {
    CHECK(refused("", v4, Sender::client).cause ==
          std::string_view("frame is not exactly one packet"));
    CHECK(std::holds_alternative<DecodeError>(
        decode(as_bytes(wire("c0 00 c0 00")), v4, Sender::client)));
}

TEST_CASE("a CONNECT gives all it says") {
    const Received<Connect> connect(
        "10 r s'MQTT' 05 ee k600 [ 21 k20 26 s'a' s'b' ] s'phone'"
        " [ 18 w5 ] s'will/p' s'gone' s'ann' s'secret'",
        v4);
    CHECK(connect->version == v5);
    CHECK(connect->clean_start);
    CHECK(connect->keepalive == 600);
    CHECK(connect->client_id == "phone");
    CHECK(connect->username == "ann");
    CHECK(connect->password == "secret");
    CHECK(connect->properties.number(Property::receive_maximum) == 20);
    REQUIRE(connect->will.has_value());
    CHECK(connect->will->topic == "will/p");
    CHECK(connect->will->payload == "gone");
    CHECK(connect->will->qos == QoS::at_least_once);
    CHECK(connect->will->retain);
    CHECK(connect->will->properties.number(Property::will_delay_interval) == 5);
}

TEST_CASE("a small CONNECT has no will, no user and no password") {
    const Received<Connect> connect("10 r13 s4 'MQTT' 04 00 k10 s1 'p'", v5);
    CHECK(connect->version == v4);
    CHECK_FALSE(connect->clean_start);
    CHECK_FALSE(connect->will.has_value());
    CHECK_FALSE(connect->username.has_value());
    CHECK_FALSE(connect->password.has_value());
    CHECK(connect->properties.empty());
}

TEST_CASE("a CONNACK's return code is a reason") {
    CHECK(Received<Connack>("20 02 01 00", v4, Sender::server)->session_present);
    CHECK(Received<Connack>("20 02 00 04", v4, Sender::server)->reason ==
          Reason::bad_user_name_or_password);
    CHECK(Received<Connack>("20 r 00 8a [ 1f s'no' ]", v5, Sender::server)->reason ==
          Reason::banned);
}

TEST_CASE("a PUBLISH gives its flags, topic, identifier and payload") {
    const Received<Publish> publish("3d r s'a/b' k7 [ 23 k5 ] 'hello'", v5);
    CHECK(publish->dup);
    CHECK(publish->qos == QoS::exactly_once);
    CHECK(publish->retain);
    CHECK(publish->topic == "a/b");
    CHECK(publish->packet_id == 7);
    CHECK(publish->properties.number(Property::topic_alias) == 5);
    CHECK(publish->payload == "hello");
}

TEST_CASE("a PUBLISH views the bytes it came in") {
    const std::string bytes = wire("30 r s'a/b' 'hello'");
    const Decoded decoded = decode(as_bytes(bytes), v4, Sender::client);
    const auto& publish = std::get<Publish>(std::get<Packet>(decoded));
    CHECK(publish.topic.data() == bytes.data() + 4);
    CHECK(publish.payload.data() == bytes.data() + 7);
    CHECK(publish.packet_id == 0);
}

TEST_CASE("a topic that uses all its 65,535 bytes is decoded") {
    const Received<Publish> publish("30 r s'x'*65535 'hello'", v4);
    CHECK(publish->topic.size() == 65'535);
}

TEST_CASE("an acknowledgement without a reason is a success") {
    CHECK(Received<Puback>("40 02 k7", v5)->reason == Reason::success);
    const Received<Pubrec> pubrec("50 r k7 97 [ 1f s'full' ]", v5);
    CHECK(pubrec->packet_id == 7);
    CHECK(pubrec->reason == Reason::quota_exceeded);
    CHECK(pubrec->properties.text(Property::reason_string) == "full");
}

TEST_CASE("a SUBSCRIBE gives its filters with their options") {
    const Received<Subscribe> subscribe("82 r k9 [ 0b r300 ] s'a/b' 2e s'#' 11", v5);
    CHECK(subscribe->packet_id == 9);
    CHECK(subscribe->properties.number(Property::subscription_identifier) == 300);
    REQUIRE(subscribe->filters.size() == 2);
    CHECK(subscribe->filters[0].filter == "a/b");
    CHECK(subscribe->filters[0].options == SubscribeOptions{.qos = QoS::exactly_once,
                                                            .no_local = true,
                                                            .retain_as_published = true,
                                                            .retain_handling = 2});
    CHECK(subscribe->filters[1].options ==
          SubscribeOptions{.qos = QoS::at_least_once, .retain_handling = 1});
}

TEST_CASE("3.1 marks every packet that it sends again") {
    for (const char* again : {"6a r2 k7", "8a r k1 s'a/b' 01", "aa r k1 s'a/b'"}) {
        CAPTURE(again);
        const std::string bytes = wire(again);
        const auto status = [&](Version version) {
            return next_frame(as_bytes(bytes), unlimited, version).status;
        };
        CHECK(status(Version::v3_1) == Frame::Status::complete);
        CHECK(status(v4) == Frame::Status::bad);
        CHECK(
            std::holds_alternative<Packet>(decode(as_bytes(bytes), Version::v3_1, Sender::client)));
    }
    for (const char* never : {"4a 02 k7", "e8 00", "60 02 k7"})
        CHECK(refused(wire(never), Version::v3_1, Sender::client).reason ==
              Reason::malformed_packet);
}

TEST_CASE("3.1.1 knows no shared subscriptions, and so no bad ones") {
    const Received<Subscribe> subscribe("82 r k9 s'$share/' 00 s'$share//#' 01", v4);
    CHECK(subscribe->filters.size() == 2);
    const Received<Unsubscribe> unsubscribe("a2 r k9 s'$share/g'", v4);
    CHECK(unsubscribe->filters == std::vector<std::string_view>{"$share/g"});
}

TEST_CASE("a SUBACK and an UNSUBACK give a reason for each filter") {
    CHECK(Received<Suback>("90 r k1 00 02 80", v4, Sender::server)->reasons ==
          std::vector{Reason::success, Reason::granted_qos_2, Reason::unspecified_error});
    CHECK(Received<Unsuback>("b0 r k1 [ ] 00 11", v5, Sender::server)->reasons ==
          std::vector{Reason::success, Reason::no_subscription_existed});
    CHECK(Received<Unsuback>("b0 r k1", v4, Sender::server)->reasons.empty());
}

TEST_CASE("a DISCONNECT and an AUTH give their reason and properties") {
    CHECK(Received<Disconnect>("e0 00", v5)->reason == Reason::success);
    CHECK(Received<Disconnect>("e0 01 04", v5)->reason == Reason::disconnect_with_will);
    const Received<Auth> auth("f0 r 18 [ 15 s'SCRAM' ]", v5);
    CHECK(auth->reason == Reason::continue_authentication);
    CHECK(auth->properties.text(Property::authentication_method) == "SCRAM");
}

TEST_CASE("a CONNECT that can't be decoded is answered in the version it claims") {
    const auto claims = [](std::string_view notation) {
        return claims_of_connect(as_bytes(wire(notation)));
    };
    CHECK(claims("10 r s'MQTT' 06 ff")->version == v5);
    CHECK(claims("10 r s'MQTT' 05 03")->version == v5);
    CHECK(claims("10 r s'MQTT' 04 03")->version == v4);
    CHECK(claims("10 r s'MQIsdp' 03 02 k10 s'p'")->version == v4);
    CHECK(claims("10 r1000 s'MQTT' 05 02")->version == v5);  // cut off
    for (const char* strange : {"10 00", "", "10 r s'HTTP' 04 02", "10 r s'MQTT'",
                                "11 r s'MQTT' 04", "c0 00", "30 r s'MQTT' 05"})
        CHECK_FALSE(claims(strange));
}

TEST_CASE("a CONNECT that can't be decoded is not answered with more than it says it takes") {
    const auto size = [](std::string_view notation) {
        return claims_of_connect(as_bytes(wire(notation)))->max_packet_size;
    };
    CHECK(size("10 r s'MQTT' 05 03 k10 [ 21 k9 27 w20 ] s'p'") == 20);
    CHECK(size("10 r s'MQTT' 05 03 k10 [ ] s'p'") == 0);
    CHECK(size("10 r s'MQTT' 05 03 k10 [ 27 w20 ff ] s'p'") == 0);  // the properties are malformed
    CHECK(size("10 r s'MQTT' 05 03") == 0);
    CHECK(refusing_connack(v5, Reason::malformed_packet, "why", 0) ==
          wire("20 r 00 81 [ 1f s'why' ]"));
    CHECK(refusing_connack(v5, Reason::malformed_packet, "why", 11) ==
          wire("20 r 00 81 [ 1f s'why' ]"));
    CHECK(refusing_connack(v5, Reason::malformed_packet, "why", 10) == wire("20 r 00 81 [ ]"));
    CHECK(refusing_connack(v5, Reason::malformed_packet, "why", 4).empty());
    CHECK(refusing_connack(v4, Reason::client_identifier_not_valid, "why", 0) ==
          wire("20 02 00 02"));
}

namespace {

/// A packet's bytes, and how they were meant.
struct Seed {
    std::string bytes;
    Version version;
    Sender sender;
};

/// Damages packets in the ways a wire, a bug or an enemy would.
class Mutator {
public:
    explicit Mutator(std::vector<Seed> seeds) : seeds_(std::move(seeds)) {}

    const Seed& next() {
        current_ = seeds_[below(seeds_.size())];
        for (auto times = 1 + below(3); times > 0; --times) damage(current_.bytes);
        if (below(4) != 0) mend_length(current_.bytes);
        if (below(8) == 0) current_.version = current_.version == v4 ? v5 : v4;
        if (below(8) == 0)
            current_.sender = current_.sender == Sender::client ? Sender::server : Sender::client;
        return current_;
    }

private:
    void damage(std::string& bytes) {
        if (bytes.empty()) return;
        const std::size_t at = below(bytes.size());
        switch (below(6)) {
            case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8)); break;
            case 1: bytes[at] = static_cast<char>(below(256)); break;
            case 2: bytes.resize(at); break;
            case 3: bytes.insert(at, 1 + below(3), static_cast<char>(below(256))); break;
            case 4: bytes.erase(at, 1 + below(3)); break;
            case 5: splice(bytes, at); break;
        }
    }

    void splice(std::string& bytes, std::size_t at) {
        const std::string& other = seeds_[below(seeds_.size())].bytes;
        const std::size_t from = below(other.size());
        bytes.insert(at, other, from, 1 + below(other.size() - from));
    }

    // Otherwise the length would refuse nearly everything.
    static void mend_length(std::string& bytes) {
        if (bytes.size() >= 2 && bytes.size() < 130) bytes[1] = static_cast<char>(bytes.size() - 2);
    }

    std::size_t below(std::size_t bound) { return random_() % bound; }

    std::mt19937 random_{20'240'229};
    std::vector<Seed> seeds_;
    Seed current_{};
};

std::vector<Seed> seeds() {
    std::vector<Seed> all;
    for (const ValidVector& vector : valid_vectors())
        all.push_back({wire(vector.notation), vector.version, vector.sender});
    for (const BadVector& vector : bad_vectors())
        all.push_back({wire(vector.notation), vector.version, vector.sender});
    return all;
}

}  // namespace

TEST_CASE("damaged packets are refused or survive a round trip") {
    constexpr int tried = sanitized ? 200'000 : 2'000'000;  // decode_fuzz tries more of them
    Mutator mutator(seeds());
    int still_packets = 0;
    for (int i = 0; i < tried; ++i) {
        const auto& [bytes, version, sender] = mutator.next();
        if (const char* promise = broken_promise(as_bytes(bytes), version, sender))
            FAIL(std::string_view(promise) << ": " << hex(bytes));
        still_packets += std::holds_alternative<Packet>(decode(as_bytes(bytes), version, sender));
    }
    // The damage is neither so light nor so heavy that one side goes untested.
    CHECK(still_packets > tried / 22);
    CHECK(still_packets < tried / 2);
}
