#include "server/commands/ctl/ctl_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "server/auth/secret_file.h"
#include "server/base/text/url.h"
#include "server/commands/ctl/ctl_commands.h"

namespace pulsegate {

namespace {

/// Where a gateway's socket is if nothing else is said: in its usual data folder, or in the one of
/// the Debian package.
std::string usual_socket() {
    std::string packaged = "/var/lib/pulsegate/admin.sock";
    std::string here = "data/admin.sock";
    std::error_code ignored;
    if (std::filesystem::exists(here, ignored)) return here;
    return std::filesystem::exists(packaged, ignored) ? packaged : here;
}

void print_completion() {
    fmt::print("{}", R"(_pulsegate() {
    local words
    case ${COMP_CWORD} in
        1) words='ctl passwd token backup import --config --check --help --version' ;;
        2) [ "${COMP_WORDS[1]}" = ctl ] && words='status top check clients user why trace kick
            ban unban bans publish drain reload upgrade backup completion
            --json --socket --url --token-file --ca-file' ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _pulsegate pulsegate
)");
}

}  // namespace

int Ctl::show(const GatewayClient::Answer& answer,
              const std::function<void(const boost::json::value&)>& print) const {
    if (json) fmt::print("{}", answer.text);
    if (!answer.ok()) {
        fmt::print(stderr, "pulsegate ctl: {}\n", answer.refusal());
        return ctl_refused;
    }
    if (!json) print(answer.json());
    return ctl_done;
}

std::string api_target(
    std::string path,
    std::initializer_list<std::pair<std::string_view, std::optional<std::string>>> parameters) {
    char separator = '?';
    for (const auto& [name, value] : parameters) {
        if (!value) continue;
        path += separator;
        path += name;
        path += '=';
        path += percent_encoded(*value);
        separator = '&';
    }
    return path;
}

void add_completion(CLI::App& app, Ctl& ctl) {
    auto* const completion = app.add_subcommand(
        "completion",
        "Print the completion script for bash; use it with: source <(pulsegate ctl completion)");
    completion->callback([&ctl] {
        ctl.run = [] {
            print_completion();
            return ctl_done;
        };
    });
}

int ctl_command(int argc, const char* const* argv) {
    Ctl ctl;
    std::string token_file;
    CLI::App app{
        "Shows the state of a running gateway, and controls it. Exit status: 0 done, 1 the gateway "
        "refuses or is not ready, 2 the command line is wrong, 3 no gateway answers.",
        "pulsegate ctl"};
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.require_subcommand(1);
    app.fallthrough();
    app.add_flag("--json", ctl.json, "Print the gateway's answer as JSON");
    auto* const socket = app.add_option("--socket", ctl.place.socket,
                                        "The gateway's Unix socket; default: data/admin.sock, or "
                                        "/var/lib/pulsegate/admin.sock")
                             ->type_name("FILE");
    auto* const url = app.add_option("--url", ctl.place.url,
                                     "HTTP listener of a gateway, to use instead of the socket")
                          ->type_name("URL")
                          ->excludes(socket);
    app.add_option("--token-file", token_file, "File with the token for the HTTP listener")
        ->type_name("FILE")
        ->needs(url);
    app.add_option(
           "--ca-file", ctl.place.ca_file,
           "PEM file with CAs that are trusted for the HTTP listener; default: the system's CAs")
        ->type_name("FILE")
        ->needs(url);
    add_observing(app, ctl);
    add_clients(app, ctl);
    add_trace(app, ctl);
    add_operating(app, ctl);
    add_upgrade(app, ctl);
    add_completion(app, ctl);

    try {
        app.parse(argc, argv);
        if (!token_file.empty()) ctl.place.token = read_token("token-file", token_file);
        if (ctl.place.socket.empty() && ctl.place.url.empty()) ctl.place.socket = usual_socket();
        return ctl.run();
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return ctl_done;
    } catch (const CLI::ParseError& error) {
        const auto unknown = app.remaining();
        const bool has_command = !app.get_subcommands().empty() || unknown.empty();
        fmt::print(
            stderr, "pulsegate ctl: {}; see pulsegate ctl --help\n",
            has_command ? error.what() : fmt::format("unknown command '{}'", unknown.front()));
        return ctl_usage;
    } catch (const GatewayAway& error) {
        fmt::print(stderr, "pulsegate ctl: {}\n", error.what());
        return ctl_away;
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate ctl: {}\n", error.what());
    }
    return ctl_refused;
}

}  // namespace pulsegate
