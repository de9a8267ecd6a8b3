#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loadgen/report/labels.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

/// The spread of a run's repeats.
struct Spread {
    double least = 0;
    double most = 0;
};

/// A figure of several runs. It has no value for a run that could not measure it.
struct ComparedFigure {
    std::string label;
    Unit unit = Unit::count;
    enum class Better : std::uint8_t { lower, higher, neither } better = Better::neither;
    bool is_servers = true;                       ///< otherwise it is the generator's own
    std::vector<std::optional<double>> values{};  ///< for repeats, their median
    std::vector<Spread> spreads{};                ///< of the repeats that have a value

    /// The difference of run `at` to the first run, as a fraction: 0.1 is a tenth more. Nothing if
    /// there is no value to divide by, or hardly any difference.
    std::optional<double> difference(std::size_t at) const;

    /// Is run `at` worse than the first one by more than this fraction, and each of its repeats
    /// worse than every repeat of the first run? Figures of the generator are never worse.
    bool is_worse(std::size_t at, double fraction) const;
};

// Each run has this many repeats: the first `repeats` records belong to the first run.

/// The figures that at least one of the runs has.
std::vector<ComparedFigure> compared_figures(std::span<const RunRecord> records,
                                             std::size_t repeats = 1);

/// A check that did not have the same outcome in all runs, or did not pass. An outcome is nothing
/// if the run did not make the check. The worst outcome of repeats counts.
struct ComparedCheck {
    std::string promise;
    std::vector<std::optional<CheckResult::Outcome>> outcomes;
};
std::vector<ComparedCheck> compared_checks(std::span<const RunRecord> records,
                                           std::size_t repeats = 1);

/// Is any run worse than the first one?
struct Worsening {
    /// Promises that the first run did not break. A promise that the first run could not judge is
    /// not among them.
    std::vector<std::string> broken{};
    std::vector<std::string> figures{};  ///< worse by more than the fraction
    std::string refused{};               ///< why the figures can't be compared; "": they can
};
Worsening worsening(std::span<const RunRecord> records, std::size_t repeats, double fraction);

/// A distinct name for each run.
std::vector<std::string> names_of(std::span<const RunRecord> records);

}  // namespace pulsegate::load
