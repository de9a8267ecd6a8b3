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

/// What `pulsegate ctl upgrade` asks for.
struct UpgradeOrder {
    std::string program{};  ///< its path; "": the one from which this process was started
    bool is_rehearsal = false;
    Millis longest_pause = 3'000;  ///< for so long clients may wait
};

/// How an upgrade has ended.
struct UpgradeOutcome {
    enum class End : std::uint8_t {
        completed,  ///< this process has taken over
        rehearsed,
        failed,  ///< the old process goes on
    };
    End end = End::failed;
    std::string why{};   ///< it failed
    std::string from{};  ///< versions
    std::string to{};
    WallMillis when = 0;
    Millis pause = 0;                             ///< in which nobody served
    std::uint64_t moved = 0;                      ///< clients
    std::map<std::string, std::uint64_t> left{};  ///< clients that did not move, by the reason
};

/// Whether an upgrade is under way, and how the last one ended that this process has had a part in.
/// Any thread may use it.
class UpgradeState {
public:
    /// False: one is under way already.
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
