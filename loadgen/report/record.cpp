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

std::vector<RunRecord::Storm> RunRecord::storms() const {
    std::vector<Storm> storms;
    for (const Mark& begins : marks) {
        if (!begins.text.starts_with(marks::storm)) continue;
        const auto which = std::string_view(begins.text).substr(marks::storm.size());
        const auto over = marked(std::string(marks::storm_over).append(which));
        const double end = over.value_or(measured().to);
        storms.push_back({which.substr(std::min<std::size_t>(2, which.size())),
                          {begins.at, std::max(begins.at, end)}});
    }
    std::ranges::sort(storms, {}, [](const Storm& storm) { return storm.part.from; });
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

std::string_view word_for_people(CheckResult::Outcome outcome) {
    switch (outcome) {
        case CheckResult::Outcome::passed: return "pass";
        case CheckResult::Outcome::failed: return "fail";
        case CheckResult::Outcome::refused: return "inconclusive";
        case CheckResult::Outcome::skipped: break;
    }
    return "skipped";
}

}  // namespace pulsegate::load
