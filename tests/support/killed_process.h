#pragma once

#include <functional>

namespace pulsegate {

/// Runs `what` in a process of its own, which is killed before its system call number `kill_at`
/// that changes a file: writes to it, syncs, cuts, creates, renames or deletes it. Calls count
/// from 1. Returns whether it was killed; else it has come to its end. `what` starts no thread.
bool run_until_killed(int kill_at, const std::function<void()>& what);

}  // namespace pulsegate
