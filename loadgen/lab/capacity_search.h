#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace pulsegate::load {

/// What a run at some scale says of a server.
enum class TrialOutcome : std::uint8_t {
    held,
    broke,
    refused,  ///< the generator itself was the bottleneck
};

/// Searches the largest scale that a server holds: raises it by a factor until something breaks,
/// halves the distance until it is small, and repeats both edges, because the same load may break a
/// server once and not the next time. It runs nothing itself.
class CapacitySearch {
public:
    struct Settings {
        double first = 1;
        double factor = 2;
        double resolution = 0.1;  ///< how far apart the edges may be in the end, as a share
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
            refused,     ///< beyond `holds` the generator was the bottleneck
            unlimited,   ///< it held the most that was allowed
            nothing,     ///< it broke at the least that was allowed
            unfinished,  ///< the edge was not found in the trials there were
        };
        Kind kind = Kind::unfinished;
        double holds = 0;   ///< 0: nothing was held
        double breaks = 0;  ///< 0: nothing broke
        /// That it holds the one and not the other more often than not, by the repeats.
        double confidence = 0;
        unsigned trials = 0;
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

    /// The lowest scale that was not held, and the highest below it that was.
    Levels::const_iterator upper() const;
    Levels::const_iterator lower() const;
    std::optional<double> untried() const;
    std::optional<double> repeat() const;
    bool hopeless() const;

    const Settings settings_;
    Levels levels_;
    unsigned trials_ = 0;
};

/// The probability that something happens more often than not, after it did `yes` times and did not
/// `no` times.
double probability_of_majority(unsigned yes, unsigned no);

}  // namespace pulsegate::load
