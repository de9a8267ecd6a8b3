#include "server/store/rows/row_codec.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace pulsegate;

TEST_CASE("receivers come back as they were, by ascending owner") {
    const Receiver plain{.owner = 5, .qos = QoS::at_least_once};
    const Receiver all{.owner = 4'000'000'000,
                       .qos = QoS::exactly_once,
                       .retain = true,
                       .identifiers = {1, 268'435'455},
                       .share = std::make_shared<const std::string>("$share/workers/jobs/#")};
    const Receiver shared{.owner = 6, .share = std::make_shared<const std::string>("")};
    const std::string bytes = encode_receivers(77, {all, shared, plain});
    CHECK(decode_receivers(77, bytes) == std::vector{plain, shared, all});
    CHECK(decode_receivers(77, encode_receivers(77, {})) == std::vector<Receiver>());
}

TEST_CASE("a thousand receivers take three bytes each, or less") {
    std::vector<Receiver> receivers;
    for (OwnerId owner = 0; owner < 1000; ++owner) receivers.push_back({.owner = owner * 100});
    CHECK(encode_receivers(1, receivers).size() <= 3000);
}

TEST_CASE("receivers with any bit flipped are damaged, and those of another message too") {
    const std::string bytes = encode_receivers(1, {{.owner = 3}, {.owner = 300}});
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        std::string flipped = bytes;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
        CHECK_FALSE(decode_receivers(1, flipped));
    }
    CHECK_FALSE(decode_receivers(2, bytes));
    CHECK_FALSE(decode_receivers(1, ""));
}

TEST_CASE("if an owner is in two lists of receivers, the second entry counts") {
    const auto merged =
        merge_receivers({{.owner = 1}, {.owner = 3}}, {{.owner = 3, .retain = true}, {.owner = 2}});
    CHECK(merged ==
          std::vector<Receiver>{{.owner = 1}, {.owner = 2}, {.owner = 3, .retain = true}});
    const Receiver member{.owner = 3, .share = std::make_shared<const std::string>("$share/g/x")};
    CHECK(merge_receivers({member}, {{.owner = 3}}) == std::vector{member});
    CHECK(merge_receivers({{.owner = 3}}, {member}) == std::vector{member});
}

TEST_CASE("stamps come back as they were") {
    const std::vector<Stamp> stamps{1, 2, 1'000'000, UINT64_MAX};
    CHECK(decode_stamps(encode_stamps(stamps)) == stamps);
    CHECK(decode_stamps("").empty());
}

TEST_CASE("the checksum is CRC-32C, over all texts as if they were one") {
    CHECK(checksum({"123456789"}) == 0xE3069283);  // the check value of its catalogue entry
    CHECK(checksum({"1234", "", "56789"}) == 0xE3069283);
}
