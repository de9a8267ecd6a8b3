#include "server/transport/connections/spare_buffers.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

std::unique_ptr<Buffer> buffer_of(std::size_t capacity) {
    auto buffer = std::make_unique<Buffer>();
    buffer->reserve(capacity);
    return buffer;
}

/// How many of that size are kept of `count` that are given back.
std::size_t kept(std::size_t count, std::size_t capacity) {
    SpareBuffers spare;
    for (std::size_t i = 0; i < count; ++i) spare.give_back(buffer_of(capacity));
    std::size_t found = 0;
    while (spare.take()->capacity() >= capacity) ++found;
    return found;
}

}  // namespace

TEST_CASE("the buffers of a room of thousands are all kept for its next message") {
    CHECK(kept(5'000, 100) == 5'000);
}

TEST_CASE("spare buffers take a megabyte at most") {
    CHECK(kept(1'000, 8'192) > 100);
    CHECK(kept(1'000, 8'192) * 8'192 <= 1024 * 1024);
}

TEST_CASE("a buffer that has grown large is not kept") { CHECK(kept(1, 16 * 1024 + 1) == 0); }

TEST_CASE("there is room again for what was taken") {
    SpareBuffers spare;
    for (int i = 0; i < 1'000; ++i) spare.give_back(buffer_of(8'192));
    for (int i = 0; i < 1'000; ++i) {
        auto buffer = spare.take();
        CHECK(buffer->capacity() >= 8'192);
        CHECK(buffer->empty());
        spare.give_back(std::move(buffer));
    }
}

TEST_CASE("buffers that nobody needs any more are freed bit by bit, the others stay") {
    SpareBuffers spare;
    const auto use = [&](std::size_t count) {
        std::vector<std::unique_ptr<Buffer>> taken;
        for (std::size_t i = 0; i < count; ++i) taken.push_back(spare.take());
        std::size_t kept = 0;
        for (auto& buffer : taken) {
            kept += buffer->capacity() > 1'000;
            buffer->reserve(1'001);
            spare.give_back(std::move(buffer));
        }
        return kept;
    };
    CHECK(use(500) == 0);
    spare.free_unneeded();
    CHECK(use(500) == 500);
    for (int second = 0; second < 60; ++second) {
        CHECK(use(10) == 10);
        spare.free_unneeded();
    }
    CHECK(use(500) == 10);
}
