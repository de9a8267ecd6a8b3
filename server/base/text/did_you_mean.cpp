#include "server/base/text/did_you_mean.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <optional>

namespace pulsegate {

namespace {

/// The letters and digits of a name, in lower case, without separators.
std::string letters_of(std::string_view name) {
    std::string letters;
    for (const char c : name)
        if (std::isalnum(static_cast<unsigned char>(c)))
            letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return letters;
}

/// The number of letters that must be inserted, removed, replaced or exchanged with a neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), last(before), row(before);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

/// The distance between a written name and a known name; nothing if they are too different.
std::optional<std::size_t> mistakes(std::string_view written, std::string_view name) {
    constexpr std::size_t longest = 64;  // the work grows with the square
    constexpr std::size_t shortest_beginning = 4;
    if (written.size() > longest) return std::nullopt;
    const std::size_t near = 1 + name.size() / 5;
    const auto [shorter, longer] = std::minmax({written.size(), name.size()});
    const bool begins_alike =
        shorter >= shortest_beginning && written.substr(0, shorter) == name.substr(0, shorter);
    if (!begins_alike && longer - shorter > near) return std::nullopt;
    const std::size_t apart = distance(written, name);
    if (begins_alike) return apart / 2;  // forgotten words are more likely than wrong ones
    return apart <= near ? std::optional(apart) : std::nullopt;
}

}  // namespace

std::string nearest_name(std::string_view written, const std::vector<std::string>& names) {
    const std::string letters = letters_of(written);
    std::string nearest;
    std::optional<std::size_t> fewest;
    if (letters.empty()) return nearest;
    for (const std::string& name : names) {
        const auto count = mistakes(letters, letters_of(name));
        if (!count || (fewest && *count >= *fewest)) continue;
        fewest = count;
        nearest = name;
    }
    return nearest;
}

}  // namespace pulsegate
