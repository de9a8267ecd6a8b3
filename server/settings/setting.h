#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pulsegate {

/// Where a value was stated.
struct SettingOrigin {
    enum class Kind : std::uint8_t { nowhere, file, environment, command_line };
    Kind kind = Kind::nowhere;
    std::string name{};    ///< of the file, or of the variable
    std::size_t line = 0;  ///< in the file

    /// `pulsegate.toml:7`, `PULSEGATE_IDLE_TIMEOUT`, `command line` or `default`.
    std::string text() const;
    /// A message about what was stated here, with its place before it.
    std::string located(const std::string& message) const;
};

/// The text of a value. A setting that may be repeated has several.
struct StatedValue {
    std::string text;
    SettingOrigin origin;
};

/// A setting: how it is named, described, read and shown.
struct Setting {
    enum class Form : std::uint8_t { flag, value, list };

    std::string name;
    Form form;
    const char* type;   ///< what is written: "DURATION"
    const char* usual;  ///< the default as a text; "" if there is none
    const char* help;
    const char* group;
    /// Parses one of its texts into the Config. Throws ConfigError.
    std::function<void(const std::string& text)> take;
    std::function<void()> clear{};  ///< of a list: forgets what was taken so far
    /// The values in force, as `take` reads them. Null: only the texts say it.
    std::function<std::vector<std::string>()> shown{};
    bool is_live = false;               ///< a reload applies it
    bool is_live_while_set = false;     ///< the same, unless it was not set, or is not any more
    std::vector<StatedValue> stated{};  ///< what counts of all that was stated

    /// What applies a change of it, for people; "": a restart.
    const char* liveness() const {
        return is_live ? "live" : is_live_while_set ? "live while set" : "";
    }
    /// Does a reload apply the change from what it was before?
    bool changes_live(const Setting& before) const {
        const bool is_set_both_times = !values().empty() && !before.values().empty();
        return is_live || (is_live_while_set && is_set_both_times);
    }

    /// In force: as they are shown, or as they were stated.
    std::vector<std::string> values() const;
    /// `idle-timeout = "20s"`
    std::string written_in_force() const;
    /// How the value is written in the file.
    std::string written(const std::vector<std::string>& texts) const;
};

}  // namespace pulsegate
