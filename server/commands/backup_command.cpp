#include "server/commands/backup_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "server/auth/secret_file.h"
#include "server/commands/ctl/gateway_client.h"
#include "server/commands/run_command.h"

namespace pulsegate {

namespace {

/// Returns what there is to say about the backup.
std::string order_backup(const GatewayClient& gateway, const std::string& file, bool overwrite) {
    const boost::json::object order{{"file", file}, {"overwrite", overwrite}};
    const auto answer =
        gateway.ask(GatewayClient::Verb::post, "/api/v1/backup", boost::json::serialize(order));
    if (!answer.ok()) throw std::runtime_error(answer.refusal());
    const auto said = answer.json();
    return fmt::format("{}: {} bytes in {:.2f} s", file, said.at("bytes").to_number<double>(),
                       said.at("seconds").to_number<double>());
}

}  // namespace

int backup_command(int argc, const char* const* argv) {
    std::string file;
    std::string url = "http://127.0.0.1:8080";
    std::string token_file;
    bool overwrite = false;

    CLI::App app{
        "Copies all data of a running gateway to a file, while the gateway serves. The gateway "
        "writes the file, on its own machine.",
        "pulsegate backup"};
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.add_option("FILE", file, "The copy, outside of the gateway's data folder")
        ->type_name("")
        ->required();
    app.add_option("--admin", url, "The gateway's HTTP listener")
        ->type_name("URL")
        ->capture_default_str();
    app.add_option("--admin-token-file", token_file, "File with the gateway's token")
        ->type_name("FILE");
    app.add_flag("--overwrite", overwrite, "Replace the file if it exists");

    return run_command(app, argc, argv, [&] {
        GatewayPlace place{.url = url};
        if (!token_file.empty()) place.token = read_token("admin-token-file", token_file);
        const std::string path = std::filesystem::absolute(file).string();
        fmt::print("{}\n", order_backup(GatewayClient(std::move(place)), path, overwrite));
    });
}

}  // namespace pulsegate
