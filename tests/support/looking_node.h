#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/cluster/membership.h"

namespace pulsegate {

/// Looks once a beat while it lives, as the ledger does.
class Looking {
public:
    explicit Looking(Membership& node)
        : thread_([this, &node] {
              while (!ends_) {
                  answer_ = node.look().answer;
                  std::unique_lock lock(mutex_);
                  end_.wait_for(lock, beat, [this] { return ends_.load(); });
              }
          }) {}
    ~Looking() {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        end_.notify_one();
        thread_.join();
    }
    RowStore::Answer answer() const { return answer_; }

private:
    static constexpr std::chrono::milliseconds beat{20};

    std::mutex mutex_;
    std::condition_variable end_;
    std::atomic<bool> ends_{false};
    std::atomic<RowStore::Answer> answer_{RowStore::Answer::done};
    std::thread thread_;
};

}  // namespace pulsegate
