#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/measure/measurements.h"
#include "loadgen/observe/description.h"
#include "loadgen/report/series.h"

namespace pulsegate::load {

/// A moment of a run that plots show.
struct Mark {
    double at = 0;  ///< seconds from the start
    std::string text;
};

/// The marks that checks look for. With several storms, ": GROUP" follows.
namespace marks {
inline constexpr std::string_view go = "measuring begins";
inline constexpr std::string_view storm = "storm begins";
inline constexpr std::string_view storm_over = "storm is over";
inline constexpr std::string_view hostile = "hostile clients come";
inline constexpr std::string_view drain = "drain begins";
}  // namespace marks

/// A promise of the server (or of the generator), and whether the run confirmed it.
struct CheckResult {
    enum class Outcome : std::uint8_t {
        passed,
        failed,
        skipped,  ///< there was nothing to judge; `detail` says why
        refused,  ///< the generator can't say, because it was not fast enough
    };

    std::string name;  ///< in JSON
    std::string promise;
    Outcome outcome = Outcome::skipped;
    double value = 0;  ///< the result: a count, or seconds
    std::string detail;
};

/// All data of a run, as stored in a file.
struct RunRecord {
    std::string version;  ///< of the generator
    std::string name;
    std::string command;
    std::string scenario;       ///< the text of its file, with the settings that were overridden
    std::string target;         ///< "mqtt://127.0.0.1:1883", or several
    std::int64_t started = 0;   ///< Unix time, seconds
    std::uint32_t clients = 0;  ///< planned
    std::uint32_t workers = 0;
    std::uint32_t sources = 0;  ///< source addresses
    bool interrupted = false;
    bool remote = false;      ///< the workers ran on other machines
    bool is_cluster = false;  ///< the servers were nodes of one cluster; not stored
    MachineDescription machine;
    ServerDescription server;

    std::vector<Stretch> series;
    Measurements totals;
    std::vector<Mark> marks;

    std::vector<CheckResult> checks;
    std::vector<std::string> examples;  ///< the first few failures
    std::vector<std::string> notes;
    std::string verdict;  ///< a sentence

    /// When the mark with this text was set.
    std::optional<double> marked(std::string_view text) const;

    /// The part in which the load was what the scenario asks for: from `marks::go` to
    /// `marks::drain`, in seconds. Empty if there are no such marks.
    struct Part {
        double from = 0;
        double to = 0;
        double length() const { return to - from; }
    };
    Part measured() const;

    /// A storm, from its beginning to its end or to the end of the measured part.
    struct Storm {
        std::string_view group;  ///< if there are several storms; otherwise empty
        Part part;
    };
    std::vector<Storm> storms() const;  ///< in order
};

std::string_view word(CheckResult::Outcome outcome);  ///< "passed", as in JSON

/// "pass", as in reports; "inconclusive" if the verdict was refused.
std::string_view word_for_people(CheckResult::Outcome outcome);

/// As in the record.
boost::json::value to_json(const CheckResult& check);

/// The record as JSON, which `record_from` reads. Unknown fields are ignored.
std::string record_text(const RunRecord& record);

/// Throws `std::runtime_error` with the reason if it is not a record.
RunRecord record_from(std::string_view text);

/// The file's name is part of the message of the `std::runtime_error`.
RunRecord read_record(const std::string& file);
void write_record(const RunRecord& record, const std::string& file);

}  // namespace pulsegate::load
