#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace pulsegate {

/// Does the setting need no value?
bool is_flag(const CLI::App& app, const std::string& name);

/// The file of settings, as CLI11 reads it; but what CLI11 would overlook or take for something
/// else is refused.
class ConfigFile final : public CLI::ConfigTOML {
public:
    explicit ConfigFile(const CLI::App& app) : app_(app) {}

    /// Throws ConfigError.
    std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;

private:
    std::string path() const;

    const CLI::App& app_;
};

}  // namespace pulsegate
