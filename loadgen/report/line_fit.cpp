#include "loadgen/report/line_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace pulsegate::load {

namespace {

/// Student's t for 95 %. It is large for few points, because they say little about the error.
double student(std::size_t degrees_of_freedom) {
    constexpr std::array table{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
    return degrees_of_freedom <= table.size() ? table[degrees_of_freedom - 1] : 2.0;
}

}  // namespace

std::optional<LineFit> LineFit::through(std::span<const Point> points) {
    LineFit fit;
    fit.points_ = points.size();
    double mean_y = 0;
    for (const auto& [x, y] : points) {
        fit.mean_x_ += x / static_cast<double>(points.size());
        mean_y += y / static_cast<double>(points.size());
    }
    double together = 0;
    for (const auto& [x, y] : points) {
        fit.spread_x_ += (x - fit.mean_x_) * (x - fit.mean_x_);
        together += (x - fit.mean_x_) * (y - mean_y);
    }
    if (points.size() < 2 || fit.spread_x_ <= 0) return {};
    fit.slope_ = together / fit.spread_x_;
    fit.intercept_ = mean_y - fit.slope_ * fit.mean_x_;
    for (const auto& [x, y] : points) fit.residual_ += (y - fit.at(x)) * (y - fit.at(x));
    return fit;
}

/// A line through two points fits exactly, so its error is unknown.
std::optional<double> LineFit::error(double variance_factor) const {
    if (points_ < 3) return {};
    const double variance = residual_ / static_cast<double>(points_ - 2);
    return student(points_ - 2) * std::sqrt(variance * variance_factor);
}

Estimate LineFit::slope() const { return {slope_, error(1 / spread_x_)}; }

Estimate LineFit::at_zero() const {
    return {intercept_, error(1 / static_cast<double>(points_) + mean_x_ * mean_x_ / spread_x_)};
}

Estimate mean_of(std::span<const double> values) {
    Estimate mean;
    if (values.empty()) return mean;
    const auto count = static_cast<double>(values.size());
    for (const double value : values) mean.value += value / count;
    if (values.size() < 3) return mean;  // the error of two would be anything
    double squares = 0;
    for (const double value : values) squares += (value - mean.value) * (value - mean.value);
    mean.error = student(values.size() - 1) * std::sqrt(squares / (count - 1) / count);
    return mean;
}

}  // namespace pulsegate::load
