#include "server/limits/unauthenticated_memory.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

constexpr std::size_t kib = 1024;

Address from(const char* text) { return *Address::parse(text); }

/// How often the address gets so much.
std::size_t fill(UnauthenticatedMemory& memory, std::vector<UnauthenticatedMemory::Share>& shares,
                 const Address& address, std::size_t bytes) {
    for (std::size_t times = 0;; ++times) {
        UnauthenticatedMemory::Share share;
        if (!memory.resize(share, address, bytes)) return times;
        shares.push_back(std::move(share));
    }
}

}  // namespace

TEST_CASE("one address gets half of the memory for clients that have not logged in") {
    UnauthenticatedMemory memory(1024 * kib);
    std::vector<UnauthenticatedMemory::Share> shares;
    CHECK(fill(memory, shares, from("10.0.0.1"), 64 * kib) == 8);
    CHECK(fill(memory, shares, from("10.0.0.2"), 64 * kib) == 4);
    CHECK(fill(memory, shares, from("10.0.0.1"), 64 * kib) == 0);
    CHECK(memory.used() == 12 * 64 * kib);
    shares.clear();
    CHECK(memory.used() == 0);
    CHECK(fill(memory, shares, from("10.0.0.1"), 64 * kib) == 8);
}

TEST_CASE("many addresses never get more than there is") {
    UnauthenticatedMemory memory(1024 * kib);
    std::vector<UnauthenticatedMemory::Share> shares;
    for (int i = 0; i < 200; ++i)
        fill(memory, shares, from(("10.0.0." + std::to_string(i)).c_str()), 10 * kib);
    CHECK(memory.used() <= memory.budget());
    CHECK(memory.used() > memory.budget() * 9 / 10);
}

TEST_CASE("a usual CONNECT is kept even when there is nothing left") {
    UnauthenticatedMemory memory(64 * kib);
    std::vector<UnauthenticatedMemory::Share> shares;
    fill(memory, shares, from("10.0.0.1"), 2 * kib);
    UnauthenticatedMemory::Share share;
    CHECK_FALSE(memory.resize(share, from("10.0.0.1"), 1025));
    CHECK(memory.resize(share, from("10.0.0.1"), 1024));
    CHECK_FALSE(memory.resize(share, from("10.0.0.1"), 64 * kib * kib));
    CHECK(share.bytes() == 1024);
}

TEST_CASE("a share counts once, wherever it is moved") {
    UnauthenticatedMemory memory(64 * kib);
    UnauthenticatedMemory::Share first;
    CHECK(memory.resize(first, from("10.0.0.1"), 1000));
    UnauthenticatedMemory::Share second = std::move(first);
    CHECK(second.bytes() == 1000);
    CHECK(first.bytes() == 0);
    CHECK(memory.used() == 1000);
    second = UnauthenticatedMemory::Share();
    CHECK(memory.used() == 0);
}

TEST_CASE("a share that changes its size or its address counts as it is now") {
    UnauthenticatedMemory memory(64 * kib);
    UnauthenticatedMemory::Share share;
    CHECK(memory.resize(share, Address(), 8 * kib));
    CHECK(memory.resize(share, from("10.0.0.1"), 24 * kib));
    CHECK(memory.used() == 24 * kib);
    CHECK_FALSE(memory.resize(share, from("10.0.0.1"), 40 * kib));
    CHECK(memory.used() == 24 * kib);
    CHECK(memory.resize(share, from("10.0.0.1"), 2 * kib));
    CHECK(memory.used() == 2 * kib);
    CHECK(memory.resize(share, from("10.0.0.1"), 0));
    CHECK(memory.used() == 0);
    CHECK(share.bytes() == 0);
}
