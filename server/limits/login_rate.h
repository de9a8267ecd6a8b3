#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "server/base/clock.h"

namespace pulsegate {

/// Limits the logins a second on all shards together. A burst may have the logins of a twentieth of
/// a second. Any thread may use it. It has no clock.
class LoginRate {
public:
    /// 0: any number.
    explicit LoginRate(double logins_a_second) { use(logins_a_second); }

    /// Applies another rate.
    void use(double logins_a_second) {
        const double interval = logins_a_second == 0 ? 0 : std::min(1e9 / logins_a_second, longest);
        interval_.store(static_cast<std::int64_t>(interval), std::memory_order_relaxed);
        most_ahead_.store(std::max(static_cast<std::int64_t>(interval), burst),
                          std::memory_order_relaxed);
    }

    /// True if a client may log in now; counts the login.
    [[nodiscard]] bool take(Millis now) {
        const std::int64_t interval = interval_.load(std::memory_order_relaxed);
        if (interval == 0) return true;
        const std::int64_t time = now * 1'000'000;
        std::int64_t due = due_.load(std::memory_order_relaxed);
        while (true) {
            const std::int64_t next = std::max(due, time) + interval;
            if (next - time > most_ahead_.load(std::memory_order_relaxed)) return false;
            if (due_.compare_exchange_weak(due, next, std::memory_order_relaxed)) return true;
        }
    }

    /// Gives back the last login, which was not needed.
    void give_back() {
        due_.fetch_sub(interval_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }

    /// How far the allowed logins are ahead of the time, in ns.
    std::int64_t ahead(Millis now) const {
        return std::max<std::int64_t>(due_.load(std::memory_order_relaxed) - now * 1'000'000, 0);
    }
    /// Takes over that value from another process, in an upgrade.
    void adopt(std::int64_t ahead, Millis now) {
        const auto most = most_ahead_.load(std::memory_order_relaxed);
        due_.store(now * 1'000'000 + std::clamp<std::int64_t>(ahead, 0, most),
                   std::memory_order_relaxed);
    }

private:
    static constexpr double longest = 1e18;  // ns; it can be added to the time
    /// In ns; so short that connected clients don't notice.
    static constexpr std::int64_t burst = 50'000'000;

    std::atomic<std::int64_t> interval_{0};    ///< ns between two logins
    std::atomic<std::int64_t> most_ahead_{0};  ///< limit of `due_` ahead of the time, in ns
    std::atomic<std::int64_t> due_{0};  ///< time of the next login if logins came evenly, in ns
};

}  // namespace pulsegate
