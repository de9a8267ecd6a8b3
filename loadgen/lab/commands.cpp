#include "loadgen/lab/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <vector>

#include "loadgen/kill/checks.h"
#include "loadgen/kill/kill_run.h"
#include "loadgen/kill/report.h"
#include "loadgen/lab/capacity.h"
#include "loadgen/lab/coordinator.h"
#include "loadgen/lab/token.h"
#include "loadgen/lab/worker.h"
#include "loadgen/report/checks.h"
#include "loadgen/report/comparison.h"
#include "loadgen/report/html.h"
#include "loadgen/report/plan_on_paper.h"
#include "loadgen/report/text.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr int worse_status = 3;

/// A file for results, opened before the run, so that a wrong name is reported at once.
class Output {
public:
    Output(const char* option, const std::string& name) : option_(option), name_(name) {
        if (name.empty() || name == "-") return;
        file_.open(name);
        if (!file_)
            throw std::runtime_error(fmt::format(
                "{} '{}': can't be written; name a file in a folder that exists", option, name));
    }

    bool wanted() const { return !name_.empty(); }

    void write(const std::string& text) {
        if (name_ == "-") {
            fmt::print("{}", text);
            std::fflush(stdout);
        } else if (!(file_ << text << std::flush)) {
            throw std::runtime_error(fmt::format(
                "{} '{}': could not be written completely; is the disk full?", option_, name_));
        }
    }

private:
    const char* option_;
    const std::string name_;
    std::ofstream file_;
};

/// Reports go to standard error if standard output is used for results.
FILE* report_stream(const RunCommand& command) {
    return command.json == "-" || command.html == "-" ? stderr : stdout;
}

std::optional<WorkerPool> remote_workers(const RunCommand& command, Interruption& interruption) {
    if (!command.remote) return {};
    auto remote = *command.remote;
    remote.token = read_token(command.token_file);
    return WorkerPool::of_remote(remote, interruption, [](const std::string& line) {
        fmt::print(stderr, "{}\n", line);
        std::fflush(stderr);
    });
}

int status_of(const std::vector<CheckResult>& checks) {
    switch (overall(checks)) {
        case CheckResult::Outcome::failed: return EXIT_FAILURE;
        case CheckResult::Outcome::refused: return refused_status;
        default: return EXIT_SUCCESS;
    }
}

std::string announcement(const PreparedRun& run) {
    std::string servers;
    for (const auto& server : run.request.target.servers)
        servers += (servers.empty() ? "" : ", ") + url_of(server);
    std::string text =
        fmt::format("{}: {} clients to {} from {} worker{}, {} packets a second, for {}\n",
                    run.scenario.name, show_count(run.scenario.clients()), servers,
                    run.layout.workers, run.layout.workers == 1 ? "" : "s",
                    show_count(static_cast<std::uint64_t>(run.scenario.packets())),
                    show(std::max(run.scenario.duration, run.scenario.settled_after())));
    for (const auto& note : run.layout.notes) text += "note: " + note + "\n";
    return text;
}

int run_once(const RunCommand& command, WorkerPool* remote, Interruption& interruption) {
    const PreparedRun run = prepare(command.request, survey_limits());
    Output json("--json", command.json), html("--html", command.html);
    FILE* const stream = report_stream(command);
    fmt::print(stream, "{}", announcement(run));
    std::fflush(stream);

    auto own = remote ? WorkerPool() : WorkerPool::of_processes(run.layout.workers);
    RunRecord record = carry_out(run, remote ? *remote : own, interruption);
    if (!command.request.metrics.empty() && record.server.metrics.empty())
        record.notes.push_back(
            fmt::format("no metrics could be read from {}", command.request.metrics));
    fmt::print(stream, "{}", text_report(record));
    if (json.wanted()) json.write(record_text(record));
    if (html.wanted()) html.write(html_report({&record, 1}));
    return record.interrupted ? Interruption::exit_status : status_of(record.checks);
}

int search_capacity(const RunCommand& command, WorkerPool* remote, Interruption& interruption) {
    Output json("--json", command.json);
    const auto result = measure_capacity(*command.capacity, remote, survey_limits(), interruption);
    fmt::print(report_stream(command), "{}\n", result.sentence());
    if (json.wanted()) json.write(result.json());
    return result.exit_status();
}

std::vector<RunRecord> read_records(const std::vector<std::string>& files) {
    std::vector<RunRecord> records;
    records.reserve(files.size());
    for (const auto& file : files) records.push_back(read_record(file));
    return records;
}

/// Broken promises count in any case. Figures are not judged if the generator was too slow.
int status_of(const Worsening& found, FILE* stream) {
    fmt::print(stream, "\n");
    for (const auto& promise : found.broken) fmt::print(stream, "worse: {}\n", promise);
    if (!found.refused.empty())
        fmt::print(stream, "the figures are not judged; {}\n", found.refused);
    else
        for (const auto& figure : found.figures) fmt::print(stream, "worse: {}\n", figure);
    if (!found.broken.empty()) return worse_status;
    if (!found.refused.empty()) return refused_status;
    if (!found.figures.empty()) return worse_status;
    fmt::print(stream, "no run is worse than the first\n");
    return EXIT_SUCCESS;
}

}  // namespace

int run(const RunCommand& command) {
    Interruption interruption;
    auto remote = remote_workers(command, interruption);
    WorkerPool* const pool = remote ? &*remote : nullptr;
    return command.capacity ? search_capacity(command, pool, interruption)
                            : run_once(command, pool, interruption);
}

int run(const CompareCommand& command) {
    const auto records = read_records(command.files);
    Output html("--html", command.html);
    FILE* const stream = command.html == "-" ? stderr : stdout;
    if (command.html != "-") fmt::print("{}", text_comparison(records, command.repeats));
    if (html.wanted()) html.write(html_report(records));
    if (!command.most_worse) return EXIT_SUCCESS;
    return status_of(worsening(records, command.repeats, *command.most_worse), stream);
}

int run(const PaperCommand& command) {
    const auto records = read_records(command.files);
    const auto plan = plan_on_paper(records, command.clients, command.clients_per_node);
    fmt::print("{}", plan_text(plan));
    return plan.refused.empty() ? EXIT_SUCCESS : refused_status;
}

int run(const KillCommand& command) {
    const auto& options = command.options;
    Output json("--json", options.json);
    fmt::print(stderr, "kill: seed {}\n", options.seed);
    Interruption interruption;
    const auto results = kill::KillRun(options, interruption).run();
    const auto checks = kill::checks_of(results);
    fmt::print(options.json == "-" ? stderr : stdout, "{}",
               kill::text_report(options, results, checks));
    if (json.wanted()) json.write(kill::as_json(options, results, checks));
    return status_of(checks);
}

int run(const WorkerCommand& command) {
    return command.fd >= 0 ? work_for_parent(command.fd)
                           : work_for(command.host, command.port, read_token(command.token_file));
}

int run(const Printout& printout) {
    fmt::print("{}", printout.text);
    return EXIT_SUCCESS;
}

}  // namespace pulsegate::load
