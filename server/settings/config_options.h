#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/settings/config.h"
#include "server/settings/config_values.h"

namespace pulsegate {

inline constexpr Millis second = 1000;

/// Ten years, and a terabyte: a larger value is taken for a typing error.
inline constexpr Millis longest_memory = 3650ll * 86'400 * second;
inline constexpr std::size_t most_bytes = std::size_t{1} << 40;

/// Not stated: it follows from another setting.
inline constexpr std::size_t by_share = SIZE_MAX;
/// Before the settings are read, and behind.
void leave_shares_open(Config& config);
void complete_shares(Config& config);

/// Defines the options: each one parses its text into a member of the Config.
class Settings {
public:
    explicit Settings(CLI::App& app) : app_(app) {}

    /// Sets the heading in `--help` for the settings that follow.
    void begin(const char* group) { group_ = group; }

    enum class Empty : std::uint8_t {
        is_refused,
        has_a_meaning,  ///< which the help tells
    };

    template <class Parse>
    void any(const std::string& name, const char* type, const char* usual, const char* help,
             Parse parse, Empty empty = Empty::is_refused) {
        const auto take = [=](const std::string& text) {
            if (!text.empty() || empty == Empty::is_refused) require_value(name, type, text);
            parse(name, text);
        };
        auto* option = app_.add_option_function<std::string>("--" + name, take, help);
        option->type_name(type)->group(group_);
        if (*usual) option->default_str(usual);
    }

    /// A setting that may be repeated.
    template <class Take>
    void each(const char* name, const char* type, const char* help, Take take) {
        const auto take_all = [=](const std::vector<std::string>& texts) {
            for (const auto& text : texts) {
                require_value(name, type, text);
                take(text);
            }
        };
        app_.add_option_function<std::vector<std::string>>(std::string("--") + name, take_all, help)
            ->type_name(type)
            ->group(group_)
            ->allow_extra_args(false)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }

    void files(const char* name, std::vector<std::string>& value, const char* help) {
        each(name, "FILE", help, [&value](const std::string& file) { value.push_back(file); });
    }

    void flag(const char* name, bool& value, const char* help) {
        app_.add_flag(std::string("--") + name, value, help)->group(group_);
    }

    void duration(const char* name, Millis& value, Millis least, Millis most, const char* usual,
                  const char* help) {
        any(name, "DURATION", usual, help, [&value, least, most](auto& named, auto& text) {
            value = parse_duration(named, text, least, most);
        });
    }

    void size(const char* name, std::size_t& value, std::size_t least, std::size_t most,
              const char* usual, const char* help) {
        any(name, "SIZE", usual, help, [&value, least, most](auto& named, auto& text) {
            value = parse_size(named, text, least, most);
        });
    }

    template <class Number>
    void count(const char* name, Number& value, unsigned least, unsigned most, const char* usual,
               const char* help) {
        any(name, "N", usual, help, [&value, least, most](auto& named, auto& text) {
            value = static_cast<Number>(parse_count(named, text, least, most));
        });
    }

    void on_off(const char* name, bool& value, const char* help) {
        any(name, "on|off", value ? "on" : "off", help,
            [&value](auto& named, auto& text) { value = parse_switch(named, text); });
    }

private:
    /// A variable that is not set must not switch a protection off: there, as `--data "$DATA"`, the
    /// value is empty, and as `--data $DATA` it is what comes next.
    static void require_value(const std::string& name, const char* type, const std::string& text) {
        if (text.empty())
            throw ConfigError(name + ": the value is empty; write " + type +
                              ", or leave the setting out");
        if (text.starts_with("--"))
            throw ConfigError(name + ": the value is missing before " + text);
    }

    CLI::App& app_;
    const char* group_ = "Options";
};

/// The webhook, the presence feed, and the log of events that both read.
void add_events(Settings& settings, Config& config);
/// What follows from other settings. Throws ConfigError.
void complete_events(Config& config);
/// Throws ConfigError.
void check_events(const Config& config);

}  // namespace pulsegate
