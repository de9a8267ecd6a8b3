#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadgen/measure/measurements.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// A line of a server's metrics, without its labels.
struct MetricSample {
    std::string_view name;
    double value = 0;
};

/// The samples in Prometheus's text format 0.0.4; other lines are ignored. The names point into
/// `text`.
std::vector<MetricSample> metric_samples(std::string_view text);

/// Sets the gauges from Pulsegate's metrics: `server_connections` of all shards together, and
/// `server_loop_lag` of the worst. Returns false if neither is there.
bool take_metrics(std::string_view text, Measurements& into);

/// The body of an HTTP resource. Throws `std::runtime_error` with the reason if there is none, also
/// if it takes longer than `within` or is larger than 8 MiB. A `token` is sent in the Authorization
/// header.
std::string http_body(const std::string& url, Duration within, const std::string& token = {});

/// Throws `std::invalid_argument` with the remedy if it can't be the address of metrics.
void check_metrics_url(const std::string& url);

/// The address of an HTTP API, without a slash at the end. Throws `std::invalid_argument` likewise.
std::string parse_api_url(std::string_view url);

}  // namespace pulsegate::load
