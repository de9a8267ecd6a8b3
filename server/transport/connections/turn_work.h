#pragma once

#include <cstdint>
#include <utility>

#include "server/base/owner_thread.h"
#include "server/loop/rounds.h"

namespace pulsegate {

/// The maximum work of one round, in messages to one client.
inline constexpr std::uint64_t work_a_turn = 4096;

/// The work that the packets of all connections of one shard caused in this round of the event
/// loop. When its work is used up, packets that may cause much work wait for a later round. So
/// other clients are served in between, however many clients send such packets at once.
class TurnWork {
public:
    explicit TurnWork(Rounds& rounds) : rounds_(rounds) {}

    void add(std::uint64_t work) {
        thread_.assert_here();
        spent_ += work;
        if (spent_ > unnoticed) expect_end();
    }
    bool used_up(std::uint64_t more = 0) const { return spent_ + more > work_a_turn; }

private:
    /// The end of a round need not reset the count below this, because less work delays no client
    /// noticeably.
    static constexpr std::uint64_t unnoticed = work_a_turn / 4;

    void expect_end() {
        if (std::exchange(ending_, true)) return;
        rounds_.later([this] {
            ending_ = false;
            spent_ = 0;
        });
    }

    Rounds& rounds_;
    std::uint64_t spent_ = 0;
    bool ending_ = false;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
