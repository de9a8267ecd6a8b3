#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "server/commands/ctl/ctl_commands.h"
#include "server/commands/ctl/text_table.h"

namespace pulsegate {

namespace {

namespace json = boost::json;
using Verb = GatewayClient::Verb;

void add_publish(CLI::App& app, Ctl& ctl) {
    struct Options {
        std::string topic{};
        std::string payload{};
        unsigned qos = 1;
        bool retain = false;
        std::optional<std::uint64_t> in{};
    };
    const auto options = std::make_shared<Options>();
    auto* const publish = app.add_subcommand("publish", "Publish a message, now or later");
    publish->add_option("TOPIC", options->topic, "Its topic, such as inbox/bob or room/lobby")
        ->required();
    publish->add_option("PAYLOAD", options->payload, "The message; \"\" deletes a retained one")
        ->required();
    publish->add_option("-q,--qos", options->qos, "Its QoS")
        ->check(CLI::Range(0, 2))
        ->capture_default_str();
    publish->add_flag("-r,--retain", options->retain, "Retain it");
    publish->add_option("--in", options->in, "Publish it after this many seconds");
    publish->callback([&ctl, options] {
        ctl.run = [&ctl, options] {
            json::object message{{"topic", options->topic},
                                 {"payload", options->payload},
                                 {"qos", options->qos},
                                 {"retain", options->retain}};
            if (options->in) message["in"] = *options->in;
            const char* const target = options->in ? "/api/v1/delayed" : "/api/v1/publish";
            return ctl.ask(
                Verb::post, target, json::serialize(message), [](const json::value& answer) {
                    if (const auto& all = member_at(answer, "published"); all.is_array())
                        return fmt::print("{}", text_table(all.get_array(), {{"topic", "TOPIC"},
                                                                             {"sent", "SENT"},
                                                                             {"queued", "QUEUED"},
                                                                             {"error", "ERROR"}}));
                    fmt::print("{}",
                               text_table(member_at(answer, "delayed").as_array(),
                                          {{"id", "ID"}, {"topic", "TOPIC"}, {"due", "DUE"}}));
                });
        };
    });
}

/// As "90", "90s", "5m" or "1h".
std::optional<std::int64_t> parse_span(std::string text) {
    std::int64_t factor = 1;
    if (text.ends_with('s') || text.ends_with('m') || text.ends_with('h')) {
        factor = text.back() == 's' ? 1 : text.back() == 'm' ? 60 : 3600;
        text.pop_back();
    }
    if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != text.npos)
        return std::nullopt;
    return std::stoll(text) * factor;
}

std::string check_span(const std::string& text) {
    return parse_span(text) ? "" : "'" + text + "' is not a time such as 30s, 5m or 1h";
}

void add_drain(CLI::App& app, Ctl& ctl) {
    struct Options {
        std::string over{};
        std::string notice{};
        bool show = false;
    };
    const auto options = std::make_shared<Options>();
    auto* const drain = app.add_subcommand(
        "drain",
        "Ask all clients to leave, and stop the gateway: /readyz is 503 for --notice, then the "
        "clients leave within --over");
    drain
        ->add_option("--over", options->over,
                     "Time over which the clients leave, such as 30s; default: drain-time")
        ->check(CLI::Validator(check_span, "DURATION"));
    drain
        ->add_option("--notice", options->notice,
                     "How long /readyz is 503 before that, such as 5s; default: drain-notice")
        ->check(CLI::Validator(check_span, "DURATION"));
    drain->add_flag("--show", options->show, "Only show the progress of a drain");
    drain->callback([&ctl, options] {
        ctl.run = [&ctl, options] {
            if (options->show)
                return ctl.get("/api/v1/drain", [](const json::value& state) {
                    fmt::print("{}: {} clients\n", plain_text(member_at(state, "phase")),
                               number_at(state, "clients"));
                });
            json::object terms;
            if (!options->over.empty()) terms["over"] = *parse_span(options->over);
            if (!options->notice.empty()) terms["notice"] = *parse_span(options->notice);
            return ctl.ask(Verb::post, "/api/v1/drain", json::serialize(terms),
                           [](const json::value& answer) {
                               fmt::print(
                                   "draining: not ready for {} s, then all clients leave "
                                   "within {} s, and the gateway stops\n",
                                   plain_text(member_at(answer, "notice")),
                                   plain_text(member_at(answer, "over")));
                           });
        };
    });
}

void print_list(const char* heading, const json::value& texts) {
    if (!texts.is_array()) return;
    for (const json::value& each : texts.get_array())
        fmt::print("{}: {}\n", heading, plain_text(each));
}

void add_reload(CLI::App& app, Ctl& ctl) {
    auto* const reload = app.add_subcommand(
        "reload", "Apply changed settings and files, all or nothing, as SIGHUP does");
    reload->callback([&ctl] {
        ctl.run = [&ctl] {
            return ctl.ask(Verb::post, "/api/v1/reload", {}, [](const json::value& answer) {
                print_list("applied", member_at(answer, "applied"));
                print_list("needs a restart", member_at(answer, "needs_restart"));
                fmt::print("reloaded\n");
            });
        };
    });
}

void add_backup(CLI::App& app, Ctl& ctl) {
    struct Options {
        std::string file{};
        bool overwrite = false;
    };
    const auto options = std::make_shared<Options>();
    auto* const backup =
        app.add_subcommand("backup", "Copy all stored data to a file; the gateway writes the file");
    backup->add_option("FILE", options->file, "The copy, outside of the data folder")->required();
    backup->add_flag("--overwrite", options->overwrite, "Replace the file if it exists");
    backup->callback([&ctl, options] {
        ctl.run = [&ctl, options] {
            const std::string file = std::filesystem::absolute(options->file).string();
            const json::object order{{"file", file}, {"overwrite", options->overwrite}};
            return ctl.ask(Verb::post, "/api/v1/backup", json::serialize(order),
                           [&](const json::value& answer) {
                               fmt::print("{}: {} in {} s\n", file,
                                          size_text(number_at(answer, "bytes")),
                                          plain_text(member_at(answer, "seconds")));
                           });
        };
    });
}

}  // namespace

void add_operating(CLI::App& app, Ctl& ctl) {
    add_publish(app, ctl);
    add_drain(app, ctl);
    add_reload(app, ctl);
    add_backup(app, ctl);
}

}  // namespace pulsegate
