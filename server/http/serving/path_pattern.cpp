#include "server/http/serving/path_pattern.h"

#include <algorithm>

namespace pulsegate {

namespace {

/// Takes the first segment off the path.
std::string_view take_segment(std::string_view& path) {
    const auto segment = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), segment.size() + 1));
    return segment;
}

bool is_dots(std::string_view name) { return name == "." || name == ".."; }

std::string_view without_mark(std::string_view segment) {
    const bool is_marked = segment.ends_with(';') && is_dots(segment.substr(0, segment.size() - 1));
    return is_marked ? segment.substr(0, segment.size() - 1) : segment;
}

bool in_braces(std::string_view segment) { return segment.starts_with('{'); }

}  // namespace

bool path_matches(std::string_view pattern, std::string_view path) {
    if (std::ranges::count(pattern, '/') != std::ranges::count(path, '/')) return false;
    while (!pattern.empty() || !path.empty()) {
        const auto wanted = take_segment(pattern);
        const auto segment = take_segment(path);
        if (in_braces(wanted) ? segment.empty() : segment != wanted) return false;
    }
    return true;
}

std::optional<std::string_view> path_segment(std::string_view pattern, std::string_view path,
                                             std::string_view name) {
    while (!pattern.empty()) {
        const auto wanted = take_segment(pattern);
        const auto segment = take_segment(path);
        if (in_braces(wanted) && wanted.substr(1, wanted.size() - 2) == name)
            return without_mark(segment);
    }
    return std::nullopt;
}

}  // namespace pulsegate
