#pragma once

#include <chrono>
#include <thread>

namespace pulsegate {

/// How long a test waits for what happens soon on a quiet machine. A busy machine under a sanitizer
/// may take many times as long.
inline constexpr std::chrono::seconds test_patience{120};
inline constexpr int test_patience_ms = 120'000;  ///< the same, for poll

/// True as soon as the condition is. False if it is not within `test_patience`: then the test
/// fails, instead of running until all tests are stopped.
template <class Condition>
[[nodiscard]] bool comes_true(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + test_patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

}  // namespace pulsegate
