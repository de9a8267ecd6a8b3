// Throws settings files at their reader and at the table of settings.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/settings/config_options.h"
#include "server/settings/config_pages.h"
#include "server/settings/config_sources.h"
#include "tests/fuzz/promise.h"

namespace {

using namespace pulsegate;

/// A file in memory with this text.
class SettingsFile {
public:
    explicit SettingsFile(std::string_view text) : descriptor_(::memfd_create("settings", 0)) {
        require(::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                "there is memory for a file");
    }
    ~SettingsFile() { ::close(descriptor_); }
    SettingsFile(const SettingsFile&) = delete;
    SettingsFile& operator=(const SettingsFile&) = delete;

    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

struct Read {
    std::vector<std::string> faults{};      ///< of single lines
    std::vector<std::string> complaints{};  ///< of settings that don't fit together
    std::string in_force{};                 ///< without what each line says of its origin
};

std::string without_origins(std::string text) {
    for (std::size_t at = 0; (at = text.find("  # /proc/", at)) != text.npos;)
        text.erase(at, text.find('\n', at) - at);
    return text;
}

template <class Step>
void attempt(std::vector<std::string>& complaints, const Step& step) {
    try {
        step();
    } catch (const ConfigError& error) {
        require(*error.what() != '\0', "a complaint has a text");
        complaints.emplace_back(error.what());
    }
}

/// The table of settings, which is made once: that takes longer than to read a small file.
class Table {
public:
    Table() { add_settings(settings, config); }

    /// As if nothing had been read yet.
    void begin() {
        config = Config();
        leave_shares_open(config);
        for (Setting& setting : settings.all()) setting.stated.clear();
    }

    Config config;
    Settings settings;
};

/// What ConfigReading does, but for the command line: to take that apart takes a hundred times as
/// long.
Read read(std::string_view text) {
    static Table table;
    auto& [config, settings] = table;
    const SettingsFile file(text);
    table.begin();
    Read read;
    const Statements stated = read_config_file(
        settings, file.path(),
        [&](const SettingOrigin&, const std::string& what) { read.faults.push_back(what); });
    for (const auto& [name, values] : stated) {
        settings.find(name)->stated = values;
        for (const auto& value : values)
            attempt(read.faults, [&] { settings.find(name)->take(value.text); });
    }
    complete(config, [&](const auto& step) { attempt(read.complaints, step); });
    read.in_force = without_origins(settings_in_force(settings));
    return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Read first = read(fuzzed_text(data, size));
    if (!first.faults.empty()) return 0;
    const Read again = read(first.in_force);
    require(again.faults.empty(), "settings that are printed can be read");
    require(again.complaints == first.complaints && again.in_force == first.in_force,
            "settings that are printed and read are the same");
    return 0;
}
