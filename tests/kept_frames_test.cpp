#include "server/cluster/link/kept_frames.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>

using namespace pulsegate;

TEST_CASE("frames are written in order, and kept until they are acknowledged") {
    KeptFrames kept;
    CHECK(kept.next().empty());
    kept.add("abc");
    kept.add("de");
    CHECK(kept.unwritten() == 5);
    CHECK(kept.next() == "abc");
    CHECK_FALSE(kept.acknowledge(4));  // it is not written
    CHECK(kept.acknowledge(2));
    CHECK_FALSE(kept.acknowledge(1));
    CHECK(kept.bytes() == 3);
    CHECK(kept.unwritten() == 2);
    CHECK(kept.resume(2));
    CHECK(kept.next() == "c");
    CHECK(kept.next() == "de");
    CHECK(kept.next().empty());
    CHECK_FALSE(kept.resume(6));
    CHECK(kept.acknowledge(5));
    CHECK(kept.bytes() == 0);
}

// The model: all frames are one text, of which the other node has received a part.
TEST_CASE("the other node gets each byte once, for any acknowledgements and resumptions") {
    std::mt19937 random(36);
    for (int round = 0; round < 300; ++round) {
        KeptFrames kept;
        std::string sent, received, under_way;
        std::uint64_t acknowledged = 0;
        for (int step = 0; step < 60; ++step) {
            switch (random() % 5) {
                case 0: {
                    std::string frames(1 + random() % 9, static_cast<char>('a' + random() % 26));
                    sent += frames;
                    kept.add(std::move(frames));
                    break;
                }
                case 1: under_way += kept.next(); break;
                case 2: {
                    const std::size_t part = random() % (under_way.size() + 1);
                    received += under_way.substr(0, part);
                    under_way.erase(0, part);
                    break;
                }
                case 3:
                    acknowledged += random() % (received.size() - acknowledged + 1);
                    CHECK(kept.acknowledge(acknowledged));
                    break;
                default:
                    acknowledged = received.size();
                    under_way.clear();
                    CHECK(kept.resume(acknowledged));
            }
            CHECK(kept.bytes() == sent.size() - acknowledged);
            CHECK(kept.unwritten() == sent.size() - received.size() - under_way.size());
        }
        for (auto frames = kept.next(); !frames.empty(); frames = kept.next()) under_way += frames;
        CHECK(received + under_way == sent);
    }
}
