#pragma once

#include <optional>
#include <span>

namespace pulsegate::load {

/// A figure with its error (95 %), both in the figure's unit. It has no error if there were too few
/// values.
struct Estimate {
    double value = 0;
    std::optional<double> error;
};

struct Point {
    double x = 0;
    double y = 0;
};

/// The straight line with the least squares through some points, and its errors.
class LineFit {
public:
    /// Nothing unless the points have at least two different x.
    static std::optional<LineFit> through(std::span<const Point> points);

    Estimate slope() const;
    Estimate at_zero() const;
    double at(double x) const { return intercept_ + slope_ * x; }

private:
    double intercept_ = 0;
    double slope_ = 0;
    double mean_x_ = 0;
    double spread_x_ = 0;  ///< sum of squares around the mean
    std::size_t points_ = 0;
    double residual_ = 0;  ///< sum of squares

    std::optional<double> error(double variance_factor) const;
};

/// The mean of some figures. Its error needs at least two of them.
Estimate mean_of(std::span<const double> values);

}  // namespace pulsegate::load
