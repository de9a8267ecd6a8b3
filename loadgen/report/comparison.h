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

/// Of the repeats of a run.
struct Spread {
    double least = 0;
    double most = 0;
};

/// A figure of several runs. What a run could not see has no value.
struct ComparedFigure {
    std::string label;
    Unit unit = Unit::count;
    enum class Better : std::uint8_t { lower, higher, neither } better = Better::neither;
    bool is_servers = true;                       ///< else it is the generator's own
    std::vector<std::optional<double>> values{};  ///< of repeats, their median
    std::vector<Spread> spreads{};                ///< of those that have a value

    /// Of run `at` to the first one, as a fraction of it: 0.1 is a tenth more. Nothing where there
    /// is nothing to divide, or hardly any difference.
    std::optional<double> difference(std::size_t at) const;

    /// Is run `at` worse than the first one by more than this fraction, and so are all of its
    /// repeats than each of the first one's? Figures of the generator never are.
    bool is_worse(std::size_t at, double fraction) const;
};

// Each run has been repeated so often: the first `repeats` records are those of the first run.

/// Those that at least one of the runs has.
std::vector<ComparedFigure> compared_figures(std::span<const RunRecord> records,
                                             std::size_t repeats = 1);

/// Checks that did not end alike in all runs, or did not pass; nothing if a run did not make them.
/// Of repeats the worst outcome counts.
struct ComparedCheck {
    std::string promise;
    std::vector<std::optional<CheckResult::Outcome>> outcomes;
};
std::vector<ComparedCheck> compared_checks(std::span<const RunRecord> records,
                                           std::size_t repeats = 1);

/// Is any run worse than the first one?
struct Worsening {
    std::vector<std::string> broken{};   ///< promises that the first run kept
    std::vector<std::string> figures{};  ///< worse by more than the fraction
    std::string refused{};               ///< why the figures say nothing; "": they do
};
Worsening worsening(std::span<const RunRecord> records, std::size_t repeats, double fraction);

/// A name for each run that tells it from the others.
std::vector<std::string> names_of(std::span<const RunRecord> records);

}  // namespace pulsegate::load
