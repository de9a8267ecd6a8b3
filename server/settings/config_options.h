#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/settings/config.h"
#include "server/settings/config_values.h"
#include "server/settings/setting.h"

namespace pulsegate {

inline constexpr Millis second = 1000;

/// Ten years, and a terabyte: a larger value counts as a typing error.
inline constexpr Millis longest_memory = 3650ll * 86'400 * second;
inline constexpr std::size_t most_bytes = std::size_t{1} << 40;

inline constexpr unsigned most_shards = 256;

/// A value that is not stated but follows from another setting.
inline constexpr std::size_t by_share = SIZE_MAX;
/// Call the first before the settings are read, and the second afterwards.
void leave_shares_open(Config& config);
void complete_shares(Config& config);

/// The table of all settings. Each setting parses its text into a member of the Config, which must
/// outlive the table. The command line, the settings file, `--help` and the documents use the
/// table.
class Settings {
public:
    /// Sets the heading in `--help` for the settings that follow.
    void begin(const char* group) { group_ = group; }

    enum class Empty : std::uint8_t {
        is_refused,
        has_a_meaning,  ///< explained in the help
    };

    template <class Parse>
    Setting& any(const std::string& name, const char* type, const char* usual, const char* help,
                 Parse parse, Empty empty = Empty::is_refused) {
        return add(name, Setting::Form::value, type, usual, help, [=](const std::string& text) {
            if (!text.empty() || empty == Empty::is_refused) require_value(name, type, text);
            parse(name, text);
        });
    }

    /// A setting that may be repeated.
    template <class Item, class Parse>
    Setting& each(const std::string& name, const char* type, const char* usual, const char* help,
                  std::vector<Item>& values, Parse parse) {
        auto& setting = add(name, Setting::Form::list, type, usual, help,
                            [=, &values](const std::string& text) {
                                require_value(name, type, text);
                                values.push_back(parse(text));
                            });
        setting.clear = [&values] { values.clear(); };
        return setting;
    }

    Setting& files(const char* name, std::vector<std::string>& values, const char* help) {
        return each(name, "FILE", "", help, values, [](const std::string& file) { return file; });
    }

    /// A file name, or another text that is used as it is.
    Setting& text(const char* name, const char* type, std::string& value, const char* help) {
        return any(name, type, "", help, [&value](auto&, auto& stated) { value = stated; });
    }

    Setting& flag(const char* name, bool& value, const char* help);
    Setting& duration(const char* name, Millis& value, Millis least, Millis most, const char* usual,
                      const char* help);
    Setting& size(const char* name, std::size_t& value, std::size_t least, std::size_t most,
                  const char* usual, const char* help);
    Setting& on_off(const char* name, bool& value, const char* help);

    template <class Number>
    Setting& count(const char* name, Number& value, unsigned least, unsigned most,
                   const char* usual, const char* help) {
        auto& setting =
            any(name, "N", usual, help, [&value, least, most](auto& named, auto& stated) {
                value = static_cast<Number>(parse_count(named, stated, least, most));
            });
        setting.shown = [&value] { return number_shown(static_cast<std::uint64_t>(value)); };
        return setting;
    }

    /// Null if no setting has this name.
    Setting* find(std::string_view name);
    const Setting* find(std::string_view name) const;
    const std::deque<Setting>& all() const { return all_; }
    std::deque<Setting>& all() { return all_; }

private:
    Setting& add(std::string name, Setting::Form form, const char* type, const char* usual,
                 const char* help, std::function<void(const std::string&)> take);
    static void require_value(const std::string& name, const char* type, const std::string& text);
    static std::vector<std::string> number_shown(std::uint64_t number);

    std::deque<Setting> all_{};  // references to its elements stay
    const char* group_ = "Options";
};

/// Adds all settings, in the order of `--help`.
void add_settings(Settings& settings, Config& config);
/// Adds the webhook, the presence feed, and the event log that both read.
void add_events(Settings& settings, Config& config);
/// Adds the cluster, and this node's part in it.
void add_cluster(Settings& settings, Config& config);

/// Runs a step and keeps its exception.
using Attempt = std::function<void(const std::function<void()>& step)>;
/// Derives values that follow from other settings, and checks that settings fit together, in steps
/// that throw ConfigError.
void complete(Config& config, const Attempt& attempt);

// Some of these steps:

void complete_events(Config& config);
void check_events(const Config& config);
/// Also reads the password's file.
void complete_cluster(Config& config);

}  // namespace pulsegate
