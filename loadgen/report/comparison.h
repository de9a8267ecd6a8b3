#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// What a figure counts.
enum class Unit : std::uint8_t { count, per_second, time, cores, bytes, share };

std::string show_figure(double value,
                        Unit unit);  ///< "15,000", "2,185/s", "1.2 ms", "35 MB", "9 %"

/// A figure of several runs. What a run could not see has no value.
struct ComparedFigure {
    std::string label;
    Unit unit = Unit::count;
    enum class Better : std::uint8_t { lower, higher, neither } better = Better::neither;
    std::vector<std::optional<double>> values;

    /// Of run `at` to the first one, as a fraction of it: 0.1 is a tenth more. Nothing where there
    /// is nothing to divide, or hardly any difference.
    std::optional<double> difference(std::size_t at) const;
};

/// Those that at least one of the runs has.
std::vector<ComparedFigure> compared_figures(std::span<const RunRecord> records);

/// Checks that did not end alike in all runs, or did not pass; nothing if a run did not make them.
struct ComparedCheck {
    std::string promise;
    std::vector<std::optional<CheckResult::Outcome>> outcomes;
};
std::vector<ComparedCheck> compared_checks(std::span<const RunRecord> records);

/// A name for each run that tells it from the others.
std::vector<std::string> names_of(std::span<const RunRecord> records);

}  // namespace pulsegate::load
