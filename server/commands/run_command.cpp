#include "server/commands/run_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

namespace pulsegate {

int run_command(CLI::App& app, int argc, const char* const* argv,
                const std::function<void()>& run) {
    try {
        app.parse(argc, argv);
        run();
        return 0;
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return 0;
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "{}: {}; see --help\n", app.get_name(), error.what());
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    }
    return 1;
}

}  // namespace pulsegate
