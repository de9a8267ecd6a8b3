#include "loadgen/lab/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "loadgen/kill/command_line.h"
#include "loadgen/lab/shortcuts.h"
#include "loadgen/observe/command_text.h"
#include "loadgen/observe/metrics.h"
#include "loadgen/scenario/builtin.h"
#include "loadgen/scenario/option.h"
#include "loadgen/scenario/values.h"
#include "loadgen/units.h"
#include "loadgen/version.h"

namespace pulsegate::load {

namespace {

constexpr const char* description =
    "Loads MQTT servers with clients that chat, nap, vanish, fall silent or misbehave, and checks\n"
    "what the server did with them. Works with any MQTT server.";

constexpr const char* examples =
    "Examples:\n"
    "  pulsegate-loadgen\n"
    "      15,000 clients (fewer if the file limit is lower) with 3,000 packets a second\n"
    "  pulsegate-loadgen chat --clients 5000 --set phones.online=5s..10s --html chat.html\n"
    "      another scenario (--scenarios lists all) with one changed key, and a page of plots\n"
    "  pulsegate-loadgen --clients 16000 --storm 15000\n"
    "      1,000 clients keep talking while 15,000 vanish and reconnect\n"
    "  pulsegate-loadgen --clients 200000 --connect mqtt://127.0.0.1:1883,mqtt://127.0.0.1:1884\n"
    "      as many worker processes as the file limit requires\n"
    "  pulsegate-loadgen capacity chat\n"
    "      finds the highest load that the server handles\n"
    "  pulsegate-loadgen kill\n"
    "      starts a gateway, kills it under load, and finds out what it loses\n"
    "\n"
    "Exit status: 0 every check passed, 1 a check failed or the run could not be carried out,\n"
    "2 no verdict (the generator or its machine was the bottleneck, or capacity needs more\n"
    "--trials) or no estimate, 3 a run is worse (compare --worse), 64 a mistake in the options or\n"
    "the scenario, 130 interrupted.";

std::string parse_output(std::string_view text) {
    if (text.empty()) throw std::invalid_argument("write a file name");
    return std::string(text);
}

double parse_scale(std::string_view text) {
    const double scale = parse_factor_from(text, 0);
    if (scale <= 0) throw std::invalid_argument("write a factor above 0, such as 2 or 0.5");
    return scale;
}

/// "HOST:PORT", ":PORT" or "PORT".
Address parse_listen(std::string_view text) {
    const bool bare = text.find(':') == std::string_view::npos || text.starts_with(':');
    const auto port = text.substr(text.starts_with(':') ? 1 : 0);
    auto address =
        parse_address("mqtt://" + (bare ? "any:" + std::string(port) : std::string(text)));
    if (bare) address.host.clear();
    return address;
}

std::string scenario_list() {
    std::string text;
    for (const auto& scenario : builtin_scenarios()) {
        const auto about = parse_scenario(find_scenario(std::string(scenario.name))).about;
        text += fmt::format("{:<12} {}\n", scenario.name, about);
    }
    return text;
}

/// What the options of the command line are read into.
class CommandLine {
public:
    CommandLine() : app_(description, "pulsegate-loadgen") {
        app_.get_formatter()->column_width(30);
        app_.footer(examples);
        app_.set_version_flag("--version", std::string("pulsegate-loadgen ") + program_version());
        app_.require_subcommand(0, 1);
        scenario_options();
        server_options();
        machine_options();
        output_options();
        worker_options();
        capacity_options();
        compare_options();
        plan_options();
        kill_.emplace(app_);
    }

    Command parse(int argc, const char* const* argv) {
        try {
            app_.parse(argc, argv);
        } catch (const CLI::CallForHelp&) {
            const auto chosen = app_.get_subcommands();
            return Printout{chosen.empty() ? app_.help() : chosen.front()->help()};
        } catch (const CLI::CallForVersion& version) {
            return Printout{std::string(version.what()) + "\n"};
        } catch (const CLI::ParseError& error) {
            throw std::runtime_error(std::string(error.what()) + "; --help lists the options");
        }
        run_.request.command = command_text(std::vector<std::string_view>(argv, argv + argc));
        return command();
    }

private:
    Command command() {
        if (list_) return Printout{scenario_list()};
        if (!show_.empty()) return Printout{find_scenario(show_).text};
        if (worker_.fd >= 0) return worker_;
        if (is_worker_) return remote_worker();
        refuse_useless_outputs();
        if (compare_->parsed()) return compare();
        if (plan_->parsed()) return paper_;
        if (kill_->parsed()) return KillCommand{kill_->options()};
        return run();
    }

    void refuse_useless_outputs() const {
        if (capacity_->parsed() && !run_.html.empty())
            throw std::runtime_error(fmt::format(
                "--html '{}': capacity writes no page; use --json FILE, or run the scenario with "
                "--html at the load that was found",
                run_.html));
        if (compare_->parsed() && !run_.json.empty())
            throw std::runtime_error(
                fmt::format("--json '{}': compare writes no JSON; use --html FILE", run_.json));
        if (plan_->parsed() && !(run_.json.empty() && run_.html.empty()))
            throw std::runtime_error("plan prints text only; leave out --json and --html");
        if (kill_->parsed() && !(run_.json.empty() && run_.html.empty()))
            throw std::runtime_error("kill: write its options, such as --json, after it");
    }

    CompareCommand compare() {
        if (comparison_.files.size() % comparison_.repeats != 0)
            throw std::runtime_error(
                fmt::format("--repeats '{}': {} files can't be divided into runs; name that many "
                            "files for each run",
                            comparison_.repeats, comparison_.files.size()));
        comparison_.html = run_.html;
        return comparison_;
    }

    void refuse_questions_to_nobody() const {
        const Target& target = run_.request.target;
        const bool given = http_rate_given_ || !target.http_token_file.empty();
        if (given && target.http.empty())
            throw std::runtime_error(
                fmt::format("{}: there is no HTTP API to ask; name it with --http URL",
                            http_rate_given_ ? "--http-rate" : "--http-token-file"));
    }

    RunCommand run() {
        auto& request = run_.request;
        request.text = find_scenario(scenario_);
        add_hostile();
        request.overrides.insert(request.overrides.end(), sets_.begin(), sets_.end());
        if (request.target.servers.empty())
            request.target.servers.push_back(parse_server("mqtt://127.0.0.1:1883"));
        auto& target = request.target;
        if (target.cluster && target.servers.size() < 2)
            throw std::runtime_error("--cluster: name at least two nodes with --connect URL,URL");
        if (target.events_file.empty()) target.presence_topic = true;
        refuse_questions_to_nobody();
        if (run_.remote) {
            if (run_.token_file.empty())
                throw std::runtime_error(
                    "--coordinator-listen: name the file of the token with --token-file");
            run_.remote->count = request.layout.workers.value_or(1);
            request.layout.elsewhere = true;
        }
        // A mistake in the scenario is reported before the server is looked for.
        (void)parse_scenario(request.text, request.overrides, request.scale);
        if (capacity_->parsed()) {
            search_.run = request;
            run_.capacity = search_;
        }
        return run_;
    }

    /// Adds a group for each kind of hostile clients. Their number is an override, because
    /// --clients scales the numbers of the scenario's groups, and these numbers are meant as given.
    void add_hostile() {
        std::string& text = run_.request.text.text;
        if (hostile_.empty()) return;
        if (read_settings(text, "").groups.empty()) text += "\n[group clients]\n";
        for (const auto& [kind, count] : hostile_) {
            text += fmt::format("\n[group {}]\nhostile = {}\n", kind, kind);
            run_.request.overrides.push_back({fmt::format("--hostile '{}={}'", kind, count), 0,
                                              kind, "clients", std::to_string(count)});
        }
    }

    WorkerCommand remote_worker() {
        if (coordinator_.host.empty() || run_.token_file.empty())
            throw std::runtime_error(
                "--worker: name the coordinator and the token: --coordinator HOST:PORT "
                "--token-file FILE");
        return {-1, coordinator_.host, coordinator_.port, run_.token_file};
    }

    // -- binding --

    CLI::Option* add(const char* name, const char* type, const TakeValue& take,
                     const char* standard, const char* help, const char* group) {
        return add_option(app_, name, type, take, standard, help, group);
    }

    void scenario_options() {
        app_.add_option("SCENARIO", scenario_,
                        "a built-in scenario (--scenarios lists them) or a file")
            ->default_str("keepalive");
        app_.add_flag("--scenarios", list_, "list the built-in scenarios")->group("Scenario");
        add(
            "--show", "NAME", [this](auto text) { show_ = text; }, "",
            "print a built-in scenario, as a start for your own", "Scenario");
        add(
            "--scale", "N", [this](auto text) { run_.request.scale = parse_scale(text); }, "1",
            "multiply clients and rates", "Scenario");
        add(
            "--set", "[GROUP.]KEY=VALUE",
            [this](auto text) { sets_.push_back(read_override(text)); }, "",
            "set a key of the scenario, or of one of its groups; may be\n"
            "repeated, and overrides the options below",
            "Scenario");
        add(
            "--hostile", "KIND=N", [this](auto text) { take_hostile(text); }, "",
            "mix in clients that misbehave; may be repeated", "Scenario");
        for (const Shortcut& shortcut : shortcuts())
            add(
                shortcut.option, shortcut.type,
                [this, &shortcut](auto text) {
                    run_.request.overrides.push_back({fmt::format("{} '{}'", shortcut.option, text),
                                                      0,
                                                      {},
                                                      shortcut.key,
                                                      std::string(text)});
                },
                shortcut.standard, shortcut.help, shortcut.group);
    }

    void take_hostile(std::string_view text) {
        const auto equals = text.find('=');
        const auto kind = text.substr(0, equals);
        if (parse_hostile(kind) == Hostile::none || equals == std::string_view::npos)
            throw std::invalid_argument("write a kind and a number, such as half-open=50");
        hostile_.emplace_back(kind, parse_count_between(text.substr(equals + 1), 1, 10'000'000));
    }

    void server_options() {
        constexpr const char* group = "Server";
        Target& target = run_.request.target;
        add(
            "--connect", "URL[,URL...]",
            [&](auto text) {
                for (auto& server : parse_servers(text)) target.servers.push_back(server);
            },
            "mqtt://127.0.0.1:1883",
            "the servers: mqtt://, mqtts://, ws:// or wss://; clients are\nspread over them",
            group);
        app_.add_flag("--cluster", target.cluster,
                      "the servers are nodes of one cluster: clients write to all nodes")
            ->group(group);
        add(
            "--user", "PATTERN", [&](auto text) { target.identity.user = text; }, "",
            "user names; {n} is the client's number", group);
        add(
            "--password", "PATTERN", [&](auto text) { target.identity.password = text; }, "",
            "passwords; {n} is the client's number", group);
        add(
            "--users", "FILE", [&](auto text) { target.identity.users_file = text; }, "",
            "users and passwords from lines NAME:PASSWORD", group);
        add(
            "--jwt-secret-file", "FILE", [&](auto text) { target.identity.jwt_secret_file = text; },
            "", "passwords are tokens signed with HS256", group);
        add(
            "--jwt-key-file", "FILE", [&](auto text) { target.identity.jwt_key_file = text; }, "",
            "passwords are tokens signed with this private key (PEM)", group);
        add(
            "--jwt-life", "TIME",
            [&](auto text) {
                target.identity.jwt_life =
                    std::chrono::duration_cast<std::chrono::seconds>(parse_time_above_zero(text));
            },
            "1h", "how long tokens are valid", group);
        add(
            "--ca", "FILE", [&](auto text) { target.ca_file = text; }, "the system's",
            "CAs that are trusted for the server's certificate", group);
        app_.add_flag("--insecure", target.insecure, "don't check the server's certificate")
            ->group(group);
        add(
            "--presence", "WHERE", [&](auto text) { parse_presence(target, text); }, "topic",
            "where watchers get presence from: topic, or events=FILE", group);
        add(
            "--http", "URL", [&](auto text) { target.http = parse_api_url(text); }, "",
            "the server's HTTP API, such as http://127.0.0.1:8080; the\n"
            "generator asks it for presence",
            group);
        add(
            "--http-rate", "RATE",
            [&](auto text) {
                target.http_rate = parse_http_rate(text);
                http_rate_given_ = true;
            },
            "10/s",
            "requests per second, for 100 users each; each worker waits for\n"
            "one answer before it sends the next request",
            group);
        add(
            "--http-token-file", "FILE", [&](auto text) { target.http_token_file = text; }, "",
            "file with the token for the HTTP API", group);
        add(
            "--metrics", "URL",
            [this](auto text) { run_.request.metrics = parse_metrics_url(text); }, "",
            "the server's metrics, such as http://127.0.0.1:8080/metrics", group);
        add(
            "--server-pid", "N",
            [this](auto text) { run_.request.server_pid = parse_count_between(text, 1, 1u << 30); },
            "found by its port", "process id of the server, to measure its CPU and memory", group);
    }

    void machine_options() {
        constexpr const char* group = "Machine";
        auto& layout = run_.request.layout;
        add(
            "--workers", "N",
            [&](auto text) { layout.workers = parse_count_between(text, 1, 1'000); }, "as needed",
            "processes that the clients are divided among", group);
        add(
            "--in-progress", "N",
            [&](auto text) { layout.in_progress = parse_count_between(text, 1, 100'000); }, "200",
            "maximum number of logins in progress at once", group);
        add(
            "--sources", "N",
            [&](auto text) { layout.sources = parse_count_between(text, 1, 1'000'000); }, "auto",
            "loopback source addresses to spread the clients over", group);
    }

    void output_options() {
        constexpr const char* group = "Results";
        add(
            "--json", "FILE", [this](auto text) { run_.json = parse_output(text); }, "",
            "write all measurements to this file; - is standard output", group);
        add(
            "--html", "FILE", [this](auto text) { run_.html = parse_output(text); }, "",
            "write a page with plots to this file", group);
    }

    void worker_options() {
        constexpr const char* group = "Several machines";
        add(
            "--coordinator-listen", "[HOST:]PORT",
            [this](auto text) {
                const auto address = parse_listen(text);
                run_.remote = RemoteWorkers{address.host, address.port, {}, 0};
            },
            "", "wait at this address for --workers N on other machines", group);
        app_.add_flag("--worker", is_worker_,
                      "run as a worker for a coordinator on another machine")
            ->group(group);
        add(
            "--coordinator", "HOST:PORT",
            [this](auto text) { coordinator_ = parse_address("mqtt://" + std::string(text)); }, "",
            "address of the coordinator, for a worker", group);
        add(
            "--token-file", "FILE", [this](auto text) { run_.token_file = text; }, "",
            "file with the secret that the coordinator and the workers share", group);
        app_.add_option("--worker-fd", worker_.fd)->group("");  // for processes of our own
    }

    void capacity_options() {
        capacity_ = app_.add_subcommand(
            "capacity",
            "raise the load until the server breaks, and print the highest load that it handles");
        capacity_->fallthrough()->footer("");
        auto& search = search_.search;
        const auto factor = [](double& value) {
            return [&value](std::string_view text) { value = parse_scale(text); };
        };
        add_option(
            *capacity_, "--objective", "LIST",
            [this](auto text) { search_.objectives = parse_objectives(text); },
            "p99=100ms,false-offline=0,losses=0,server-cpu=90%", "limits that the server must keep",
            "Search");
        add_option(*capacity_, "--from", "SCALE", factor(search.first), "1",
                   "scale of the first trial", "Search");
        add_option(*capacity_, "--most", "SCALE", factor(search.most), "4096",
                   "largest scale to try", "Search");
        add_option(
            *capacity_, "--resolution", "PERCENT",
            [&](auto text) { search.resolution = std::max(0.01, parse_percent(text)); }, "10%",
            "how precisely to find the limit", "Search");
        add_option(
            *capacity_, "--repeats", "N",
            [&](auto text) { search.repeats = parse_count_between(text, 1, 100); }, "3",
            "trials on each side of the limit", "Search");
        add_option(
            *capacity_, "--trials", "N",
            [&](auto text) { search.most_trials = parse_count_between(text, 1, 1'000); }, "30",
            "maximum number of trials", "Search");
    }

    void compare_options() {
        compare_ =
            app_.add_subcommand("compare", "compare runs side by side (--html FILE: as a page)");
        compare_->fallthrough()->footer("");
        compare_->add_option("FILES", comparison_.files, "results of runs, written by --json")
            ->required();
        add_option(
            *compare_, "--repeats", "N",
            [this](auto text) { comparison_.repeats = parse_count_between(text, 1, 100); }, "1",
            "number of files of each run, named one after the other; shows the\n"
            "median and the spread",
            "Compare");
        add_option(
            *compare_, "--worse", "PERCENT",
            [this](auto text) { comparison_.most_worse = parse_percent(text, 10'000); }, "",
            "exit with 3 if a run is worse than the first one by more than this", "Compare");
    }

    void plan_options() {
        plan_ = app_.add_subcommand("plan", "estimate what a larger number of clients needs");
        plan_->footer("");
        add_option(
            *plan_, "--per-node", "N",
            [this](auto text) {
                paper_.clients_per_node = parse_count_between(text, 1, 1'000'000'000);
            },
            "100000", "number of clients on one server", "Plan");
        plan_
            ->add_option_function<std::string>(
                "CLIENTS",
                [this](const std::string& text) {
                    try {
                        paper_.clients = parse_count_between(text, 1, 4'000'000'000);
                    } catch (const std::invalid_argument& remedy) {
                        throw std::runtime_error(fmt::format("plan '{}': {}", text, remedy.what()));
                    }
                },
                "number of clients")
            ->required();
        plan_->add_option("FILES", paper_.files, "results of runs, written by --json")->required();
    }

    CLI::App app_;
    CLI::App* capacity_ = nullptr;
    CLI::App* compare_ = nullptr;
    CLI::App* plan_ = nullptr;
    std::optional<kill::CommandLine> kill_;

    std::string scenario_ = "keepalive";
    bool list_ = false;
    std::string show_;
    std::vector<Setting> sets_;
    std::vector<std::pair<std::string, std::uint32_t>> hostile_;
    bool http_rate_given_ = false;
    RunCommand run_;
    CapacityRequest search_;
    bool is_worker_ = false;
    Address coordinator_;
    WorkerCommand worker_;
    CompareCommand comparison_;
    PaperCommand paper_;
};

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
    return CommandLine().parse(argc, argv);
}

}  // namespace pulsegate::load
