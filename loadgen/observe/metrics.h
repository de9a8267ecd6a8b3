#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadgen/measure/measurements.h"
#include "loadgen/net/http.h"

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

/// The body of the answer. Throws `std::runtime_error` with the reason if there is no answer with
/// status 200.
std::string http_body(const HttpRequest& request);

/// The address of metrics, with their path, which is /metrics if none is named. Throws
/// `std::invalid_argument` with the remedy.
std::string parse_metrics_url(std::string_view url);

/// The address of an HTTP API, without a slash at the end. Throws `std::invalid_argument` likewise.
std::string parse_api_url(std::string_view url);

}  // namespace pulsegate::load
