#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <tuple>
#include <vector>

#include "server/base/clock.h"
#include "server/http/questions/api_context.h"
#include "server/shard/shard_status.h"

namespace pulsegate {

/// Figures of the last hour for charts: one sample every five seconds, shared by all readers. Only
/// the API's thread uses it.
class Samples {
public:
    static constexpr std::chrono::seconds interval{5};
    static constexpr std::size_t kept = 720;

    /// In the order of `fields`; a value whose name ends in `_rate` is per second since the
    /// previous sample.
    using Values = std::array<double, 16>;
    static const std::array<const char*, std::tuple_size_v<Values>> fields;

    struct Sample {
        WallMillis time = 0;
        Values values{};
    };

    Samples(const ShardQuestions& shards, const Admission& admission, const DataStore& store)
        : shards_(shards), admission_(admission), store_(store) {}

    /// Takes samples until the thread of `io` ends.
    boost::asio::awaitable<void> take(boost::asio::io_context& io);

    const std::deque<Sample>& all() const { return samples_; }

private:
    /// Counters at the previous sample.
    struct Totals {
        std::array<std::uint64_t, 8> counts{};
        decltype(Counters::lag) lag{};
        decltype(Counters::delivery) delivery{};
    };

    static Totals totals_of(const std::vector<ShardStatus>& shards);
    void add(const std::vector<ShardStatus>& shards, WallMillis wall, Millis now);

    const ShardQuestions& shards_;
    const Admission& admission_;
    const DataStore& store_;
    std::deque<Sample> samples_;
    Totals before_{};
    Millis taken_ = 0;  ///< time of the last sample; 0: there is none
};

/// `GET /api/v1/samples`: the samples of the last hour, or those after `since`.
boost::asio::awaitable<ApiReply> show_samples(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
