#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "server/base/clock.h"
#include "server/base/gateway_sum.h"
#include "server/base/limit.h"
#include "server/limits/login_rate.h"
#include "server/limits/unauthenticated_memory.h"

namespace pulsegate {

struct AdmissionSettings {
    std::size_t max_connections = 0;  ///< 0: as many as the limit on open files allows
    std::size_t memory_budget = 0;    ///< bytes; 0: three quarters of `available_memory`
    double login_rate = 5000;         ///< logins a second; 0: any number
};

/// Bytes that all connections make the gateway keep.
struct ConnectionBytes {
    GatewaySum backlog{};     ///< output that sockets have not taken yet
    GatewaySum unfinished{};  ///< of unfinished packets
};

/// Limits the connections (also by open files), the logins a second, and the memory of the process.
/// It keeps a reserve of descriptors for connections that are refused with a reason, for files and
/// for the HTTP API. At a limit new connections are refused; open ones stay. Any thread may call
/// it.
class Admission {
public:
    /// Raises the soft limit on open files to the hard one, and keeps `own_files` descriptors for
    /// the process itself.
    Admission(const AdmissionSettings& settings, std::size_t own_files);

    /// Applies other limits, in a reload. Open connections stay, even above the limits.
    void use(const AdmissionSettings& settings, std::size_t own_files);

    /// True if there is a descriptor for one more connection, if only to refuse it.
    [[nodiscard]] bool can_accept() const {
        return open() < most_accepted_.load(std::memory_order_relaxed);
    }

    /// The limit for which new connections must be refused, if any.
    [[nodiscard]] std::optional<Limit> reached() const;

    /// True if seven eighths of memory-budget are used: data that need not grow should not.
    bool scarce() const { return memory() > memory_budget() / 8 * 7; }
    /// True if only a reserve of a sixteenth is left, for new clients: data must shrink.
    bool used_up() const { return memory() > memory_budget() / 16 * 15; }
    bool exceeded() const { return memory() > memory_budget(); }

    /// Measures the resident memory of the process. While memory is scarce, the allocator's free
    /// memory is given back now and then, because it counts as well: otherwise clients would be
    /// refused and users would lose sessions for it.
    void weigh();
    /// The same, unless it was measured less than 50 ms ago and messages have hardly grown since.
    /// Call it for each packet, because packets make memory grow. `message_bytes` is the size of
    /// all messages.
    void weigh_if_due(Millis now, std::size_t message_bytes) {
        const bool in_time = now < next_weighing_.load(std::memory_order_relaxed);
        const auto weighed = message_bytes_.load(std::memory_order_relaxed);
        if (in_time && message_bytes <= weighed + message_growth) return;
        next_weighing_.store(now + weighing_interval, std::memory_order_relaxed);
        message_bytes_.store(message_bytes, std::memory_order_relaxed);
        weigh();
    }

    void opened() { open_.fetch_add(1, std::memory_order_relaxed); }
    void closed() { open_.fetch_sub(1, std::memory_order_relaxed); }

    std::size_t open() const { return open_.load(std::memory_order_relaxed); }
    std::size_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
    std::size_t file_limit() const { return file_limit_; }
    /// The limit that sets the capacity, as text for the log.
    std::string bound() const;
    std::size_t memory() const { return memory_.load(std::memory_order_relaxed); }
    std::size_t memory_budget() const { return memory_budget_.load(std::memory_order_relaxed); }

    /// An eighth of memory-budget, for clients that have not logged in.
    UnauthenticatedMemory& unauthenticated() { return unauthenticated_; }

    LoginRate& login_rate() { return login_rate_; }
    ConnectionBytes& connection_bytes() { return connection_bytes_; }

private:
    bool give_back(std::size_t used);

    /// The most refused connections that may be open at once to receive the reason.
    static constexpr std::size_t most_told_why = 64;
    static constexpr Millis weighing_interval = 50;
    static constexpr std::size_t message_growth = 4 * 1024 * 1024;

    const std::size_t file_limit_;
    std::atomic<std::size_t> capacity_{0};
    std::atomic<bool> by_setting_{false};  ///< max-connections is the limit, and not open files
    std::atomic<std::size_t> most_accepted_{
        0};  ///< including connections that are only there to be refused
    std::atomic<std::size_t> memory_budget_{0};
    UnauthenticatedMemory unauthenticated_{0};
    LoginRate login_rate_;
    ConnectionBytes connection_bytes_;
    std::atomic<std::size_t> open_{0};
    std::atomic<std::size_t> memory_{0};
    std::atomic<bool> is_exceeded_{false};  ///< as last logged
    std::atomic<bool> gives_back_{false};
    std::atomic<Millis> next_return_{0};  ///< the earliest time to give back free memory again
    std::atomic<Millis> next_return_if_grows_{0};  ///< the same, if memory grows into the reserve
    std::atomic<std::size_t> after_return_{0};     ///< the memory after the last time
    std::atomic<Millis> next_weighing_{0};
    std::atomic<std::size_t> message_bytes_{0};  ///< at the last measurement
};

}  // namespace pulsegate
