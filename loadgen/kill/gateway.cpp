#include "loadgen/kill/gateway.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace pulsegate::kill {

DataFolder::DataFolder(const Options& options) : path_(options.data) {
    if (!path_.empty() || !options.command.empty() || !options.cluster.empty()) return;
    path_ = std::filesystem::temp_directory_path() / "pulsegate-kill-XXXXXX";
    if (!::mkdtemp(path_.data()))
        throw std::system_error(errno, std::generic_category(), "no temporary folder: " + path_);
    temporary_ = true;
}

DataFolder::~DataFolder() {
    std::error_code error;
    if (temporary_) std::filesystem::remove_all(path_, error);
}

std::vector<std::string> broker_command(const Options& options, const DataFolder& data,
                                        unsigned node, std::uint16_t place) {
    if (!options.command.empty()) return options.command;
    std::vector<std::string> command{options.gateway, "--listen", options.mqtt_url(place)};
    if (options.http != 0) command.insert(command.end(), {"--listen", options.http_url(place)});
    if (options.cluster.empty()) {
        command.insert(command.end(), {"--data", data.path()});
        return command;
    }
    // All nodes are on this machine, and each has an address of its own for its link.
    const auto link =
        fmt::format("127.77.{}.{}:{}", node / 250, 1 + node % 250, options.nodes.front().port);
    command.insert(command.end(), {"--cluster", options.cluster, "--node-name",
                                   fmt::format("node-{}", node), "--link-listen", link});
    if (options.edges) command.emplace_back("--cluster-edge");
    return command;
}

}  // namespace pulsegate::kill
