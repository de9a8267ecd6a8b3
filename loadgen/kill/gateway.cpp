#include "loadgen/kill/gateway.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace pulsegate::kill {

namespace {

std::string url(const char* scheme, const boost::asio::ip::tcp::endpoint& endpoint) {
    std::ostringstream text;
    text << scheme << endpoint;
    return text.str();
}

}  // namespace

DataFolder::DataFolder(const Options& options) : path_(options.data) {
    if (!path_.empty() || !options.command.empty()) return;
    path_ = std::filesystem::temp_directory_path() / "pulsegate-kill-XXXXXX";
    if (!::mkdtemp(path_.data()))
        throw std::system_error(errno, std::generic_category(), "no temporary folder: " + path_);
    temporary_ = true;
}

DataFolder::~DataFolder() {
    std::error_code error;
    if (temporary_) std::filesystem::remove_all(path_, error);
}

std::vector<std::string> broker_command(const Options& options, const DataFolder& data) {
    if (!options.command.empty()) return options.command;
    std::vector<std::string> command{options.gateway, "--listen", url("mqtt://", options.broker)};
    if (options.http.port() != 0)
        command.insert(command.end(), {"--listen", url("http://", options.http)});
    command.insert(command.end(), {"--data", data.path()});
    return command;
}

}  // namespace pulsegate::kill
