#include "server/limits/recent_counts.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "server/limits/address_limits.h"
#include "tests/support/addresses.h"

using namespace pulsegate;

TEST_CASE("a key that comes when there are too many is counted all the same") {
    using Counts = RecentCounts<std::uint64_t>;
    Counts counts;
    for (std::uint64_t key = 0; key < Counts::most_keys; ++key) {
        if (counts.add(key, 0) != 1) FAIL("another key's count");
    }
    CHECK(counts.add(1'000'000, 0, 3) == 3);
    CHECK(counts.add(1'000'000, 0) == 4);
    CHECK(counts.count(2'000'000, 0) == 0);
    CHECK_FALSE(counts.is_counted_alone(1'000'000));
    CHECK(counts.is_counted_alone(7));
    CHECK(counts.count(1'000'000, Counts::window) == 4);
    CHECK(counts.count(1'000'000, Counts::window * 3 / 2) == 2);
    CHECK(counts.count(1'000'000, Counts::window * 2) == 0);
}

TEST_CASE("keys that are counted together don't add up while they are few") {
    using Counts = RecentCounts<std::uint64_t>;
    Counts counts;
    for (std::uint64_t key = 0; key < 2 * Counts::most_keys; ++key) counts.add(key, 0);
    unsigned most = 0;
    for (std::uint64_t key = Counts::most_keys; key < 2 * Counts::most_keys; ++key)
        most = std::max(most, counts.count(key, 0));
    CHECK(most < 10);
}

TEST_CASE("counts go on in another process as if they had never left, those that count most") {
    using Counts = RecentCounts<std::uint64_t>;
    Counts before;
    for (std::uint64_t key = 0; key < 2 * Counts::most_told; ++key) before.add(key, 1000);
    before.add(7, 30'000, 40);
    before.add(7, Counts::window + 30'000, 5);
    before.add(8, Counts::window + 30'000, 5);
    const auto pages = before.pages(Counts::window + 30'000);
    CHECK(pages.counted.size() == Counts::most_told);
    Counts after;
    after.adopt(pages, 100);
    for (const Millis later : {0, 10'000, 29'000, 31'000, 80'000, 130'000}) {
        CAPTURE(later);
        CHECK(after.count(7, 100 + later) == before.count(7, Counts::window + 30'000 + later));
        CHECK(after.count(8, 100 + later) == before.count(8, Counts::window + 30'000 + later));
    }
}

TEST_CASE("guesses from very many addresses leave the bans of others as they are") {
    AddressLimits limits(
        {.max_connections_per_address = 0, .ban_failures = 10, .ban_time = 60'000});
    for (std::uint32_t i = 0; i < 250'000; ++i)
        static_cast<void>(
            limits.failed(Address(boost::asio::ip::address_v4(0x0A000000 + i)), i, 0));
    const auto guesser = Address(boost::asio::ip::address_v4(0xC0000201));
    int guesses = 0;
    while (guesses < 20 && !limits.banned(guesser, 0))
        static_cast<void>(limits.failed(guesser, 1'000'000 + guesses++, 0));
    CHECK(guesses <= 10);
    CHECK(guesses >= 5);
}
