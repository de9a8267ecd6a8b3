#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace pulsegate::load {

/// The result of a run at some scale.
enum class TrialOutcome : std::uint8_t {
    held,
    broke,
    refused,  ///< the generator itself was the bottleneck
};

/// Searches for the largest scale that a server holds. It raises the scale by a factor until
/// something breaks, halves the distance until it is small, and repeats both edges, because the
/// same load may break a server one time and not the next time. A load that was refused is tried
/// again before it counts as refused. It runs nothing itself.
class CapacitySearch {
public:
    struct Settings {
        double first = 1;
        double factor = 2;
        double resolution = 0.1;  ///< the final distance of the edges, as a fraction
        double least = 1.0 / 64;
        double most = 4096;
        unsigned repeats = 3;  ///< trials at each edge
        unsigned most_trials = 30;
    };

    explicit CapacitySearch(Settings settings) : settings_(settings) {}

    /// The scale to try next; nothing: the search is over.
    std::optional<double> next() const;
    void tell(double scale, TrialOutcome outcome);

    struct Verdict {
        enum class Kind : std::uint8_t {
            found,
            refused,     ///< right above `holds` the generator was the bottleneck
            unlimited,   ///< it held the largest allowed scale
            nothing,     ///< it broke at the smallest allowed scale
            unfinished,  ///< the trials were not enough to find the edge
        };
        Kind kind = Kind::unfinished;
        double holds = 0;   ///< 0: nothing was held
        double breaks = 0;  ///< the lowest scale that broke; 0: nothing broke
        /// The probability, from the repeats, that it usually holds `holds` and usually does not
        /// hold `breaks`.
        double confidence = 0;
        unsigned trials = 0;
        unsigned refused = 0;  ///< the trials of these that were refused
    };
    Verdict verdict() const;

private:
    struct Level {
        unsigned held = 0;
        unsigned broke = 0;
        unsigned refused = 0;
        unsigned trials() const { return held + broke + refused; }
        TrialOutcome opinion() const;
    };
    using Levels = std::map<double, Level>;

    /// The lowest scale that was not held, and the highest scale below it that was held.
    Levels::const_iterator upper() const;
    Levels::const_iterator lower() const;
    Levels::const_iterator broken() const;  ///< the lowest scale that broke
    std::optional<double> refused_once() const;
    std::optional<double> untried() const;
    std::optional<double> repeat() const;
    bool hopeless() const;

    const Settings settings_;
    Levels levels_;
    unsigned trials_ = 0;
};

/// The probability that an event happens in more than half of all cases, after it happened `yes`
/// times and did not happen `no` times.
double probability_of_majority(unsigned yes, unsigned no);

}  // namespace pulsegate::load
