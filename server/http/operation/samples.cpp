#include "server/http/operation/samples.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "server/http/operation/shard_sums.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/query.h"
#include "server/limits/admission.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;

const std::array<const char*, std::tuple_size_v<Samples::Values>> Samples::fields{
    "clients",
    "connections",
    "online",
    "queued",
    "memory_bytes",
    "disk_bytes",
    "delivery_ms",
    "lag_ms",
    "messages_in_rate",
    "messages_out_rate",
    "dropped_rate",
    "logins_rate",
    "logins_refused_rate",
    "timeouts_rate",
    "bytes_in_rate",
    "bytes_out_rate"};

namespace {

constexpr auto all_of_them = std::numeric_limits<std::uint64_t>::max();

/// The upper bound, in milliseconds, of the times that were counted between two states of a
/// histogram. The longest `in`-th part of them is left out.
template <class Histogram>
double bound_of_most(const Histogram& before, const Histogram& after, std::uint64_t in) {
    std::uint64_t all = 0;
    for (std::size_t bucket = 0; bucket < after.counts.size(); ++bucket)
        all += after.counts[bucket] - before.counts[bucket];
    const std::uint64_t left_out = all / in;
    std::uint64_t above = 0;
    for (std::size_t bucket = after.counts.size(); bucket-- > 0;) {
        above += after.counts[bucket] - before.counts[bucket];
        if (above > left_out)
            return static_cast<double>(
                Histogram::bounds[std::min(bucket, Histogram::bounds.size() - 1)]);
    }
    return 0;
}

template <class Histogram>
void add_counts(Histogram& sum, const Histogram& more) {
    std::ranges::transform(sum.counts, more.counts, sum.counts.begin(), std::plus());
}

double tenths(double value) { return std::round(value * 10) / 10; }

json::object to_json(const Samples::Sample& sample) {
    return {{"time", rfc3339(sample.time)},
            {"values", json::array(sample.values.begin(), sample.values.end())}};
}

}  // namespace

Samples::Totals Samples::totals_of(const std::vector<ShardStatus>& shards) {
    const ShardSums sums(shards);
    Totals totals{.counts = {sums.of(&Counters::messages_in), sums.of(&Counters::messages_out),
                             sums.dropped(), sums.of(&Counters::logins),
                             sums.of(&Counters::logins_refused), sums.of(&Counters::expiries),
                             sums.of(&Counters::bytes_in), sums.of(&Counters::bytes_out)}};
    for (const ShardStatus& shard : shards) {
        add_counts(totals.lag, shard.counters.lag);
        add_counts(totals.delivery, shard.counters.delivery);
    }
    return totals;
}

void Samples::add(const std::vector<ShardStatus>& shards, WallMillis wall, Millis now) {
    const Totals totals = totals_of(shards);
    const Totals before = std::exchange(before_, totals);
    const Millis since = std::exchange(taken_, now);
    if (since == 0) return;  // there is no sample to compare it with
    const ShardSums sums(shards);
    Sample sample{.time = wall};
    auto place = sample.values.begin();
    const auto put = [&place](auto value) { *place++ = static_cast<double>(value); };
    put(sums.of(&ShardStatus::connected));
    put(sums.of(&ShardStatus::connections));
    put(sums.of(&ShardStatus::online));
    put(sums.of(&ShardStatus::waiting));
    put(admission_.memory());
    put(store_.bytes());
    put(bound_of_most(before.delivery, totals.delivery, 100));  // 99 %
    put(bound_of_most(before.lag, totals.lag, all_of_them));
    const double seconds = static_cast<double>(std::max<Millis>(now - since, 1)) / 1000;
    for (std::size_t i = 0; i < totals.counts.size(); ++i)
        put(tenths(static_cast<double>(totals.counts[i] - before.counts[i]) / seconds));
    samples_.push_back(sample);
    if (samples_.size() > kept) samples_.pop_front();
}

boost::asio::awaitable<void> Samples::take(boost::asio::io_context& io) {
    boost::asio::steady_timer timer(io);
    boost::system::error_code cancelled;
    for (;;) {
        const auto shards = co_await shards_.status();
        if (shards) add(*shards, wall_now(), monotonic_now());
        timer.expires_after(interval);
        co_await timer.async_wait(
            boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    }
}

boost::asio::awaitable<ApiReply> show_samples(const ApiContext& api, const ApiRequest& request) {
    const WallMillis since = request.query.moment("since").value_or(0);
    json::array fields(Samples::fields.begin(), Samples::fields.end());
    json::array samples;
    for (const Samples::Sample& sample : api.samples.all())
        if (sample.time > since) samples.push_back(to_json(sample));
    co_return api_reply({{"interval", Samples::interval.count()},
                         {"fields", std::move(fields)},
                         {"samples", std::move(samples)}});
}

}  // namespace pulsegate
