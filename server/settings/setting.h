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
    std::string name{};    ///< of the file or variable
    std::size_t line = 0;  ///< in the file

    /// `pulsegate.toml:7`, `PULSEGATE_IDLE_TIMEOUT`, `command line` or `default`.
    std::string text() const;
    /// Puts this place before a message about it.
    std::string located(const std::string& message) const;
};

/// The texts of a value; several for a setting that may be repeated.
struct StatedValue {
    std::string text;
    SettingOrigin origin;
};

/// A setting: its name and description, and how it is read and shown.
struct Setting {
    enum class Form : std::uint8_t { flag, value, list };

    std::string name;
    Form form;
    const char* type;   ///< the form of its value: "DURATION"
    const char* usual;  ///< the default as a text; "" if there is none
    const char* help;
    const char* group;
    /// Parses one of its texts into the Config. Throws ConfigError.
    std::function<void(const std::string& text)> take;
    std::function<void()> clear{};  ///< for a list: forgets the values taken so far
    /// Returns the values in force, in the form that `take` reads. Null: use the texts.
    std::function<std::vector<std::string>()> shown{};
    bool is_live = false;               ///< a reload applies it
    bool is_live_while_set = false;     ///< the same, if it is set before and after
    std::vector<StatedValue> stated{};  ///< the statements that count

    /// The text for people that says how a change is applied; "": by a restart.
    const char* liveness() const {
        return is_live ? "live" : is_live_while_set ? "live while set" : "";
    }
    /// True if a reload applies the change from its value before.
    bool changes_live(const Setting& before) const {
        const bool is_set_both_times = !values().empty() && !before.values().empty();
        return is_live || (is_live_while_set && is_set_both_times);
    }

    /// True if it has another value than before, but a reload keeps that one.
    bool keeps(const Setting& before) const {
        return values() != before.values() && !changes_live(before);
    }

    /// The values in force, as `shown` returns them, or as they were stated.
    std::vector<std::string> values() const;
    /// `idle-timeout = "20s"`
    std::string written_in_force() const;
    /// The value as it is written in the file.
    std::string written(const std::vector<std::string>& texts) const;
};

}  // namespace pulsegate
