#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/base/histogram.h"
#include "server/shard/shard_status.h"

namespace pulsegate {

/// Collects families of metrics for one answer. A metric of the shards has the label `shard`; its
/// sum is the value for the gateway. A metric of the whole gateway has no such label.
class Families {
public:
    using Label = prometheus::ClientMetric::Label;
    using Family = prometheus::MetricFamily;

    explicit Families(const std::vector<ShardStatus>& shards) : shards_(shards) {}

    const std::vector<ShardStatus>& shards() const { return shards_; }

    /// One value for each shard; `value` is given its ShardStatus.
    template <class Value>
    void counter(const char* name, const char* help, Value value) {
        per_shard(name, help, prometheus::MetricType::Counter, value);
    }
    template <class Value>
    void gauge(const char* name, const char* help, Value value) {
        per_shard(name, help, prometheus::MetricType::Gauge, value);
    }

    /// One value for the whole gateway.
    void gateway_counter(const char* name, const char* help, double value);
    void gateway_gauge(const char* name, const char* help, double value);

    // For metrics with other labels: a family, and then its values.

    Family& counters(const char* name, const char* help);
    Family& gauges(const char* name, const char* help);
    Family& histograms(const char* name, const char* help);
    static void add(Family& family, std::vector<Label> labels, double value);
    static void add(Family& family, std::vector<Label> labels, std::uint64_t value) {
        add(family, std::move(labels), static_cast<double>(value));
    }

    /// In Prometheus, times are in seconds, and each bucket includes those below it.
    template <Millis... Bounds>
    static void add(Family& family, std::vector<Label> labels, const Histogram<Bounds...>& times) {
        auto& histogram = family.metric.emplace_back().histogram;
        family.metric.back().label = std::move(labels);
        std::uint64_t below = 0;
        for (std::size_t i = 0; i < times.bounds.size(); ++i) {
            below += times.counts[i];
            histogram.bucket.push_back({below, static_cast<double>(times.bounds[i]) / 1000});
        }
        histogram.sample_count = below + times.counts.back();
        histogram.sample_sum = static_cast<double>(times.sum) / 1000;
    }

    static Label shard_label(std::size_t shard) { return {"shard", std::to_string(shard)}; }

    void append(std::vector<Family> more);

    /// In the text format of Prometheus.
    std::string text() const;

private:
    Family& family(const char* name, const char* help, prometheus::MetricType type);

    template <class Value>
    void per_shard(const char* name, const char* help, prometheus::MetricType type, Value value) {
        auto& metrics = family(name, help, type);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard)
            add(metrics, {shard_label(shard)}, static_cast<double>(value(shards_[shard])));
    }

    const std::vector<ShardStatus>& shards_;
    std::vector<Family> families_;
};

}  // namespace pulsegate
