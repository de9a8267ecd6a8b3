#include "loadgen/report/record.h"

#include <algorithm>

namespace pulsegate::load {

std::optional<double> RunRecord::marked(std::string_view text) const {
    const auto found = std::ranges::find(marks, text, &Mark::text);
    if (found == marks.end()) return {};
    return found->at;
}

RunRecord::Part RunRecord::measured() const {
    const auto from = marked(marks::go);
    if (!from || series.empty()) return {};
    const double end = series.back().second + series.back().length;
    return {*from, std::max(*from, marked(marks::drain).value_or(end))};
}

std::vector<RunRecord::Part> RunRecord::storms() const {
    std::vector<Part> storms;
    for (const Mark& begins : marks) {
        if (begins.text != marks::storm) continue;
        Part storm{begins.at, std::max(begins.at, measured().to)};
        for (const Mark& over : marks)
            if (over.text == marks::storm_over && over.at >= begins.at)
                storm.to = std::min(storm.to, over.at);
        storms.push_back(storm);
    }
    return storms;
}

std::string_view word(CheckResult::Outcome outcome) {
    switch (outcome) {
        case CheckResult::Outcome::passed: return "passed";
        case CheckResult::Outcome::failed: return "failed";
        case CheckResult::Outcome::refused: return "refused";
        case CheckResult::Outcome::skipped: break;
    }
    return "skipped";
}

}  // namespace pulsegate::load
