#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/base/clock.h"

namespace pulsegate {

/// An order of `pulsegate ctl upgrade`.
struct UpgradeOrder {
    std::string program{};  ///< path of the program; "": the one that this process was started from
    bool is_rehearsal = false;
    std::optional<Millis> longest_pause{};  ///< that clients may wait; default: by their number
};

/// The outcome of an upgrade.
struct UpgradeOutcome {
    enum class End : std::uint8_t {
        completed,  ///< this process has taken over
        rehearsed,
        failed,  ///< the old process goes on
    };
    End end = End::failed;
    std::string why{};   ///< the reason of a failure
    std::string from{};  ///< versions
    std::string to{};
    WallMillis when = 0;
    Millis pause = 0;                             ///< time in which neither process served
    std::uint64_t moved = 0;                      ///< clients that moved
    std::map<std::string, std::uint64_t> left{};  ///< clients that did not move, by reason
};

/// Describes clients that did not move: "3 left behind (2 TLS kept by OpenSSL, 1 login under way)".
std::string text_of_left(const std::map<std::string, std::uint64_t>& left);

/// Whether an upgrade is under way, and the outcome of the last one in which this process took
/// part. Any thread may use it.
class UpgradeState {
public:
    /// False if an upgrade is under way already.
    bool begin() {
        const std::lock_guard lock(mutex_);
        return !std::exchange(is_under_way_, true);
    }
    void end(UpgradeOutcome outcome) {
        const std::lock_guard lock(mutex_);
        is_under_way_ = false;
        last_ = std::move(outcome);
    }

    bool is_under_way() const {
        const std::lock_guard lock(mutex_);
        return is_under_way_;
    }
    std::optional<UpgradeOutcome> last() const {
        const std::lock_guard lock(mutex_);
        return last_;
    }

private:
    mutable std::mutex mutex_;
    bool is_under_way_ = false;
    std::optional<UpgradeOutcome> last_;
};

}  // namespace pulsegate
