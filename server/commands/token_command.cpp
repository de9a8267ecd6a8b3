#include "server/commands/token_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "server/auth/admin_tokens.h"
#include "server/commands/run_command.h"

namespace pulsegate {

int token_command(int argc, const char* const* argv) {
    std::string name;
    std::string role_name;
    CLI::App app{
        "Makes a token for the HTTP API. Prints the token, which is not stored anywhere, and its "
        "line for admin-tokens-file.",
        "pulsegate token"};
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.add_option("NAME", name, "Name of the token; the log names it with each change")
        ->type_name("")
        ->required();
    app.add_option("ROLE", role_name, "read, publish (includes read) or operate (everything)")
        ->type_name("")
        ->required();
    return run_command(app, argc, argv, [&] {
        const auto role = role_named(role_name);
        if (!role)
            throw std::runtime_error(
                fmt::format("'{}' is not a role; choose read, publish or operate", role_name));
        const std::string token = random_admin_token();
        const std::string line = admin_token_line(name, *role, token);
        fmt::print("{}\n{}\n", token, line);
        std::fputs(
            "The first line is the token: keep it secret. Add the second one to admin-tokens-file, "
            "and send SIGHUP to the gateway.\n",
            stderr);
    });
}

}  // namespace pulsegate
