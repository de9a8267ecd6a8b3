#include "server/http/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>

namespace pulsegate {

using prometheus::MetricType;

void Families::gateway_counter(const char* name, const char* help, double value) {
    add(counters(name, help), {}, value);
}

void Families::gateway_gauge(const char* name, const char* help, double value) {
    add(gauges(name, help), {}, value);
}

Families::Family& Families::counters(const char* name, const char* help) {
    return family(name, help, MetricType::Counter);
}

Families::Family& Families::gauges(const char* name, const char* help) {
    return family(name, help, MetricType::Gauge);
}

Families::Family& Families::histograms(const char* name, const char* help) {
    return family(name, help, MetricType::Histogram);
}

void Families::add(Family& family, std::vector<Label> labels, double value) {
    auto& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
}

void Families::append(std::vector<Family> more) {
    std::ranges::move(more, std::back_inserter(families_));
}

std::string Families::text() const { return prometheus::TextSerializer().Serialize(families_); }

Families::Family& Families::family(const char* name, const char* help, MetricType type) {
    Family& family = families_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
    return family;
}

}  // namespace pulsegate
