#include "server/settings/config_pages.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "server/settings/config_reading.h"
#include "tests/support/parsed_settings.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

struct SettingsTable {
    Config config{};
    Settings settings{};
    SettingsTable() { add_settings(settings, config); }
};

std::vector<std::string> lines_in(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::string in_force(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv{"pulsegate"};
    for (const auto& argument : arguments) argv.push_back(argument.c_str());
    const ConfigReading reading(static_cast<int>(argv.size()), argv.data(), nullptr);
    REQUIRE(reading.faults().empty());
    return settings_in_force(reading.settings());
}

/// Without the comments that say where a value is from.
std::string values_in(const std::string& text) {
    std::string values;
    for (const std::string& line : lines_in(text))
        if (!line.starts_with('#')) values += line.substr(0, line.find("  #")) + "\n";
    return values;
}

}  // namespace

TEST_CASE("server/docs/settings.md is what --print-reference prints") {
    // To make it anew: build/pulsegate --print-reference >server/docs/settings.md
    std::ifstream file(PULSEGATE_SOURCE_DIR "/server/docs/settings.md");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    CHECK(page == settings_page(SettingsTable().settings));
}

TEST_CASE("the sample file is right, and has every setting with its default, type and use") {
    const SettingsTable table;
    const std::string sample = sample_file(table.settings);
    CHECK(complaint(SettingsFile(sample).arguments()).empty());
    for (const Setting& setting : table.settings.all()) {
        CAPTURE(setting.name);
        CHECK(has(sample, "\n#" + setting.name + " = "));
    }
    CHECK(has(sample, "DURATION; default: 30s; live\n#idle-timeout = \"30s\"\n"));
    CHECK(has(sample,
              "N; default: one for each processor that the process may use\n#shards = \"N\"\n"));
    for (const std::string& line : lines_in(sample)) CHECK(line.size() <= 100);
}

TEST_CASE("the sample file shows the real default of each setting") {
    std::size_t tried = 0;
    for (const std::string& line : lines_in(sample_file(SettingsTable().settings))) {
        if (!line.starts_with('#') || line.starts_with("# ")) continue;
        const std::string setting = line.substr(1);
        // A setting without a default shows the form of its value, as in "HOST:PORT".
        const bool shows_form = setting.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ|") <
                                setting.find_first_of("0123456789");
        if (shows_form || setting.starts_with("link-address")) continue;
        CAPTURE(setting);
        CHECK(complaint(SettingsFile(setting + "\n").arguments()).empty());
        ++tried;
    }
    CHECK(tried > 60);
}

TEST_CASE("--print-config prints a settings file that says the same again") {
    const SettingsFile file("idle-timeout = \"20s\"\n\nlisten = [\"http://h:2\"]\n");
    const std::vector<std::string> arguments{
        "--config", file.path(),   "--shards",          "3",    "--demo",
        "--data",   "/a \"b\"\\",  "--jwt-key",         "it's", "--jwt-key",
        "b",        "--inbox=off", "--sender-property="};
    const std::string printed = in_force(arguments);
    for (const auto& line :
         {"idle-timeout = \"20s\"  # " + file.path() + ":1",
          std::string("shards = 3  # command line"),
          "listen = [\"http://h:2\", \"mqtt://127.0.0.1:1883\", \"ws://127.0.0.1:8083/mqtt\"]  # " +
              file.path() + ":3",
          std::string("data = '/a \"b\"\\'  # command line"),
          std::string("jwt-key = [\"it's\", \"b\"]  # command line"),
          std::string("# log-level = \"info\"  # default"),
          std::string("sender-property = \"\"  # command line"),
          std::string("demo = true  # command line")}) {
        CAPTURE(line);
        CHECK(has(printed, "\n" + line + "\n"));
    }
    std::ofstream(file.path()) << printed;
    CHECK(values_in(in_force(file.arguments())) == values_in(printed));
}
