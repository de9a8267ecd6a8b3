#include "server/settings/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "server/base/text/lines.h"
#include "server/settings/config.h"

namespace pulsegate {

namespace {

/// The beginning or the end of a section, which no setting is in: CLI11 refuses it by its name.
bool is_section(const CLI::ConfigItem& item) { return item.name == "++" || item.name == "--"; }

/// A setting that is repeated gets all its values: CLI11 would take those of its first place only.
void join_repeated(std::vector<CLI::ConfigItem>& items) {
    std::vector<CLI::ConfigItem> joined;
    joined.reserve(items.size());
    for (auto& item : items) {
        const auto same = std::ranges::find_if(joined, [&](const CLI::ConfigItem& one) {
            return !is_section(one) && one.name == item.name && one.parents == item.parents;
        });
        if (same == joined.end())
            joined.push_back(std::move(item));
        else
            same->inputs.insert(same->inputs.end(), item.inputs.begin(), item.inputs.end());
    }
    items = std::move(joined);
}

}  // namespace

bool is_flag(const CLI::App& app, const std::string& name) {
    const auto* const option = app.get_option_no_throw("--" + name);
    return option && option->get_expected_min() == 0;
}

std::string ConfigFile::path() const { return app_.get_config_ptr()->as<std::string>(); }

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& in) const {
    const std::string file{std::istreambuf_iterator<char>(in), {}};
    if (const auto line = line_with_null(file); line > 0)
        throw ConfigError(fmt::format("config: {}:{}: has a null character; save the file as UTF-8",
                                      path(), line));
    std::istringstream lines{std::string(without_byte_order_mark(file))};
    auto items = CLI::ConfigTOML::from_config(lines);
    for (auto& item : items) {
        if (is_section(item)) continue;
        if (item.inputs.empty()) item.inputs.emplace_back();  // [] is an empty value, too
        for (const std::string& text : item.inputs)
            if (text.starts_with('"') || text.starts_with('\''))
                throw ConfigError(fmt::format(
                    "{}: {} has a quote too many or too few; a # begins a comment, also in quotes",
                    item.name, text));
        if (is_flag(app_, item.name) && item.inputs.front().empty())
            throw ConfigError(fmt::format("{0}: the value is empty; write {0} = true", item.name));
    }
    join_repeated(items);
    return items;
}

}  // namespace pulsegate
