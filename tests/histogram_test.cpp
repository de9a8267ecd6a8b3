#include "server/base/histogram.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

using namespace pulsegate;

TEST_CASE("a time counts at the first bound that it does not exceed") {
    Histogram<1, 10, 100> times;
    for (const Millis time : {0, 1, 2, 10, 11, 100, 101, 5000}) times.count(time);
    CHECK(times.counts == std::array<std::uint64_t, 4>{2, 2, 2, 2});
    CHECK(times.sum == 5225);
}
