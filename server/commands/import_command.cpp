#include "server/commands/import_command.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "server/cluster/membership.h"
#include "server/settings/config.h"
#include "server/settings/config_options.h"
#include "server/start/standby.h"
#include "server/store/start/import.h"

namespace pulsegate {

namespace {

/// Long enough for a node that has died to be found out.
constexpr auto wait_for_others = std::chrono::seconds(30);

std::size_t import_data(const std::string& folder, const Config& config) {
    if (!config.cluster.redis) throw std::runtime_error("name the cluster's Redis with --cluster");
    Membership cluster(membership_options(config));
    const auto end = std::chrono::steady_clock::now() + wait_for_others;
    if (!cluster.await_ownership([end] { return std::chrono::steady_clock::now() >= end; }))
        throw std::runtime_error("another node serves this cluster; stop all nodes first");
    const std::size_t rows = import_folder(folder, cluster);
    cluster.leave();
    return rows;
}

void add_import_option(CLI::App& app, const Setting& setting) {
    auto* const option =
        app.add_option_function<std::string>("--" + setting.name, setting.take, setting.help);
    option->type_name(setting.type)->group(setting.group);
    if (*setting.usual) option->default_str(setting.usual);
}

}  // namespace

int import_command(int argc, const char* const* argv) {
    CLI::App app(
        "Copies a data folder to the empty Redis of a cluster. Stop the gateway that uses the "
        "folder first. The data stays in the folder, in the format of this version.",
        "pulsegate import");
    spdlog::set_default_logger(spdlog::stderr_logger_mt("pulsegate"));
    std::string folder;
    Config config;
    app.add_option("DIR", folder, "The gateway's data folder (setting data)")->required();
    Settings settings;
    settings.begin("Cluster");
    add_cluster(settings, config);
    for (const Setting& setting : settings.all()) add_import_option(app, setting);
    try {
        app.parse(argc, argv);
        complete_cluster(config);
        fmt::print("{} rows were copied\n", import_data(folder, config));
        return 0;
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate import: {}\n", error.what());
        return 1;
    }
}

}  // namespace pulsegate
