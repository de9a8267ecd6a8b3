// The command line as a source of settings, and `--help`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/base/version.h"
#include "server/settings/config_pages.h"
#include "server/settings/config_sources.h"

namespace pulsegate {

namespace {

using Texts = std::map<std::string, std::vector<std::string>, std::less<>>;

void describe_program(CLI::App& app) {
    app.get_formatter()->column_width(34);
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.set_version_flag("--version", std::string("pulsegate ") + program_version(),
                         "Print the version and exit");
    app.footer(
        "DURATION: 500ms, 30s, 5m, 24h, 7d. SIZE: 65536, 256KiB, 1MiB, 1GiB.\n"
        "[live]: SIGHUP applies changes in the file. Changes of other settings need a restart.\n"
        "The same settings are read from the file of --config, as idle-timeout = \"30s\", and\n"
        "from variables, as PULSEGATE_IDLE_TIMEOUT=30s. A flag overrides a variable, and a\n"
        "variable overrides the file.\n"
        "Other commands, each with --help: pulsegate ctl controls a running gateway, pulsegate\n"
        "passwd writes a password file, pulsegate token makes a token for the HTTP API,\n"
        "pulsegate backup copies the data of a running gateway, and pulsegate import copies a\n"
        "data folder to a cluster. server/docs/settings.md describes every setting.");
}

void add_option(CLI::App& app, const Setting& setting, Texts& texts) {
    const std::string flag = "--" + setting.name;
    const std::string live =
        *setting.liveness() ? fmt::format(" [{}]", setting.liveness()) : std::string();
    const std::string help = setting.help + live;
    if (setting.form == Setting::Form::flag) {
        app.add_flag_callback(
               flag, [] {}, setting.help)
            ->group(setting.group);
        return;
    }
    auto* const option = app.add_option_function<std::vector<std::string>>(
        flag, [&values = texts[setting.name]](const auto& all) { values = all; }, help);
    option->type_name(setting.type)
        ->group(setting.group)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (setting.form != Setting::Form::list) option->expected(1);  // --help says ... else
    if (*setting.usual) option->default_str(setting.usual);
}

/// Options that are not settings: the file to read, and tasks other than serving.
void add_requests(CLI::App& app, const Settings& settings, CommandLine& line, Texts& texts) {
    app.add_flag("--check", line.check,
                 "Check the settings and the files that they name, print every error, and exit "
                 "without serving; the exit status is 1 if there is an error");
    app.add_flag("--print-config", line.print_config,
                 "Print the settings in force, and the source of each, as a settings file");
    app.add_flag_callback(
        "--print-sample", [&settings] { throw UsageRequested{sample_file(settings)}; },
        "Print a settings file with every setting, its default and its description");
    app.add_flag_callback(
        "--print-reference", [&settings] { throw UsageRequested{settings_page(settings)}; },
        "Print the same as a page of Markdown");
    app.add_option_function<std::vector<std::string>>(
           "--config", [&values = texts["config"]](const auto& all) { values = all; },
           "Read settings from a TOML-style file. Names are as below without the dashes: "
           "idle-timeout = \"30s\"")
        ->type_name("FILE")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

bool is_flag(const Settings& settings, const std::string& name) {
    const Setting* const setting = settings.find(name);
    return setting && setting->form == Setting::Form::flag;
}

/// In reverse, as CLI11 takes them, and `--name=` as `--name ""`: CLI11 would take the next
/// argument for its value, or a flag for set.
std::vector<std::string> arguments_for(const Settings& settings, int argc,
                                       const char* const* argv) {
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) {
        std::string argument = argv[i];
        if (argument.starts_with("--") && argument.ends_with('=')) {
            argument.pop_back();
            const std::string name = argument.substr(2);
            if (is_flag(settings, name))
                throw ConfigError(fmt::format("{0}: the value is empty; write --{0} alone", name));
            arguments.emplace_back();
        }
        arguments.push_back(std::move(argument));
    }
    return arguments;
}

/// Arguments that no option takes. The value of an unknown option is not reported as well.
void refuse_unknown(const Settings& settings, const std::vector<std::string>& unknown) {
    if (unknown.empty()) return;
    const auto option = std::ranges::find_if(
        unknown, [](const std::string& argument) { return argument.starts_with('-'); });
    if (option == unknown.end())
        throw ConfigError(fmt::format("'{}' is not a setting; settings begin with --, see --help",
                                      unknown.front()));
    const std::string name = option->substr(0, option->find('='));
    throw ConfigError(fmt::format("unknown setting '{}'{}", name,
                                  remedy_for_unknown(settings, name, [](const std::string& near) {
                                      return "--" + near + " (see --help)";
                                  })));
}

}  // namespace

CommandLine read_command_line(const Settings& settings, int argc, const char* const* argv,
                              const SettingFault& fault) {
    CommandLine line;
    Texts texts;
    CLI::App app{
        "Pulsegate, a chat gateway: MQTT 3.1, 3.1.1 and 5.0 for mobile clients, with reliable "
        "presence.\n"
        "Without arguments it serves MQTT on 127.0.0.1:1883 and its HTTP API on 127.0.0.1:8080.",
        "pulsegate"};
    describe_program(app);
    add_requests(app, settings, line, texts);
    for (const Setting& setting : settings.all()) add_option(app, setting, texts);
    app.allow_extras();
    try {
        app.parse(arguments_for(settings, argc, argv));
    } catch (const CLI::CallForHelp&) {
        throw UsageRequested{app.help()};
    } catch (const CLI::CallForVersion& version) {
        throw UsageRequested{std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
        throw ConfigError(fmt::format("{}; see --help", error.what()));
    }
    refuse_unknown(settings, app.remaining());
    for (const Setting& setting : settings.all())
        if (setting.form == Setting::Form::flag)
            texts[setting.name] = app.get_option("--" + setting.name)->results();
    const SettingOrigin here{SettingOrigin::Kind::command_line};
    for (const auto& [name, values] : texts) {
        const Setting* const setting = settings.find(name);
        if (values.size() > 1 && !(setting && setting->form == Setting::Form::list))
            fault(here, fmt::format("{0}: it is on the command line {1} times; write --{0} once",
                                    name, values.size()));
        if (!setting) {
            if (!values.empty()) line.config_file = values.front();
            if (!values.empty() && values.front().empty())
                fault(here, "config: the value is empty; write FILE, or leave it out");
            continue;
        }
        for (const std::string& text : values) line.settings[name].push_back({text, here});
    }
    return line;
}

}  // namespace pulsegate
