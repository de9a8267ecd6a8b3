#include "loadgen/observe/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace pulsegate::load {

namespace {

constexpr std::string_view blanks = " \t\r";

/// The end of the labels that begin at the front. A quoted value may contain braces and escaped
/// quotes.
std::size_t end_of_labels(std::string_view text) {
    bool quoted = false;
    for (std::size_t at = 1; at < text.size(); ++at) {
        if (quoted && text[at] == '\\') {
            ++at;
            continue;
        }
        if (text[at] == '"') quoted = !quoted;
        if (text[at] == '}' && !quoted) return at + 1;
    }
    return text.size();
}

bool sample_in(std::string_view line, MetricSample& sample) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    if (line.empty() || line.front() == '#') return false;
    sample.name = line.substr(0, line.find_first_of(" \t{"));
    line.remove_prefix(sample.name.size());
    if (line.starts_with('{')) line.remove_prefix(end_of_labels(line));
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), sample.value);
    return error == std::errc() && !sample.name.empty() && std::isfinite(sample.value);
}

}  // namespace

std::vector<MetricSample> metric_samples(std::string_view text) {
    std::vector<MetricSample> samples;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        MetricSample sample;
        if (sample_in(text.substr(0, end), sample)) samples.push_back(sample);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return samples;
}

bool take_metrics(std::string_view text, Measurements& into) {
    double connections = -1;
    double lag = -1;
    for (const auto& [name, value] : metric_samples(text)) {
        if (name == "pulsegate_connections") connections = std::max(connections, 0.0) + value;
        if (name == "pulsegate_loop_lag_last_seconds") lag = std::max(lag, value);
    }
    into.set(Gauge::server_connections, connections);
    into.set(Gauge::server_loop_lag, lag);
    return connections >= 0 || lag >= 0;
}

std::string http_body(const HttpRequest& request) {
    auto answer = ask(request);
    if (answer.status == 0) throw std::runtime_error(answer.body);
    if (answer.status != 200)
        throw std::runtime_error(fmt::format("the answer has status {}", answer.status));
    return std::move(answer.body);
}

std::string parse_metrics_url(std::string_view url) {
    return std::string(url) + (parse_http_url(url).path.empty() ? "/metrics" : "");
}

std::string parse_api_url(std::string_view url) try {
    while (url.ends_with('/')) url.remove_suffix(1);
    if (!parse_http_url(url).path.empty()) throw std::invalid_argument("a path");
    return std::string(url);
} catch (const std::invalid_argument&) {
    throw std::invalid_argument("write the API's address as http://HOST:PORT");
}

}  // namespace pulsegate::load
