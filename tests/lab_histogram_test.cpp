#include <doctest/doctest.h>

#include "loadgen/measure/histogram.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

TEST_CASE("an empty histogram answers zero") {
    const Histogram histogram;
    CHECK(histogram.empty());
    CHECK(histogram.percentile(0.99) == 0s);
    CHECK(histogram.mean() == 0s);
    CHECK(histogram.max() == 0s);
}

TEST_CASE("one value is every percentile of itself") {
    Histogram histogram;
    histogram.add(1234567ns);
    for (const double fraction : {0.0, 0.5, 0.99, 1.0})
        CHECK(histogram.percentile(fraction) == 1234567ns);
}

TEST_CASE("small values are counted exactly") {
    Histogram histogram;
    for (int value = 1; value <= 200; ++value) histogram.add(std::chrono::nanoseconds(value));
    CHECK(histogram.percentile(0.5) == 100ns);
    CHECK(histogram.percentile(0.99) == 198ns);
    CHECK(histogram.percentile(0) == 1ns);
}

TEST_CASE("percentiles are right to one percent at every magnitude") {
    for (Duration unit = 1us; unit <= 1h; unit *= 7) {
        Histogram histogram;
        for (int value = 1; value <= 10'000; ++value) histogram.add(value * unit);
        for (const double fraction : {0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999}) {
            const double expected = seconds(unit) * 10'000 * fraction;
            CHECK(seconds(histogram.percentile(fraction)) ==
                  doctest::Approx(expected).epsilon(0.01));
        }
    }
}

TEST_CASE("minimum, mean and maximum are exact, and bound the percentiles") {
    Histogram histogram;
    histogram.add(1'000'003ns);
    histogram.add(3'000'001ns);
    histogram.add(8'000'005ns);
    CHECK(histogram.min() == 1'000'003ns);
    CHECK(histogram.mean() == 4'000'003ns);
    CHECK(histogram.max() == 8'000'005ns);
    CHECK(histogram.percentile(1) == 8'000'005ns);
}

TEST_CASE("a negative duration counts as none, and the longest one fits") {
    Histogram histogram;
    histogram.add(-5ms);
    CHECK(histogram.max() == 0s);
    histogram.add(Duration::max());
    CHECK(histogram.percentile(1) == Duration::max());
}

TEST_CASE("histograms add up as if one had seen all values") {
    Histogram fast, slow, both;
    for (int value = 1; value <= 1000; ++value) {
        fast.add(value * 1us);
        slow.add(value * 1ms);
        both.add(value * 1us);
        both.add(value * 1ms);
    }
    fast.add(slow);
    fast.add(Histogram());
    CHECK(fast.count() == 2000);
    CHECK(fast.min() == 1us);
    CHECK(fast.max() == 1s);
    CHECK(fast.mean() == both.mean());
    for (const double fraction : {0.1, 0.5, 0.9, 0.99})
        CHECK(fast.percentile(fraction) == both.percentile(fraction));

    Histogram empty;
    empty.add(slow);
    CHECK(empty.min() == 1ms);
}
