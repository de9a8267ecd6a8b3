#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/commands/ctl/ctl_commands.h"
#include "server/commands/ctl/text_table.h"
#include "server/settings/config_values.h"

namespace pulsegate {

namespace {

namespace json = boost::json;

/// Members that each line begins with anyway.
bool is_in_front(std::string_view member) {
    return member == "time" || member == "event" || member == "user" || member == "client" ||
           member == "address" || member == "packet";
}

/// 16:00:00.125 ann phone 192.0.2.7:49152 packet_in PUBLISH bytes=23 qos=1 id=7 topic=room/x
std::string trace_line(const json::object& event) {
    const auto text_of_member = [&](std::string_view name) {
        const auto* const found = event.if_contains(name);
        return found ? plain_text(*found) : std::string();
    };
    std::string line = text_of_member("time");
    if (const auto day_end = line.find('T'); day_end != line.npos) line.erase(0, day_end + 1);
    for (const char* const name : {"user", "client", "address", "event", "packet"})
        if (const std::string text = text_of_member(name); !text.empty()) line += ' ' + text;
    for (const auto& [name, value] : event)
        if (!is_in_front({name.data(), name.size()}))
            line += fmt::format(" {}={}", std::string_view(name.data(), name.size()),
                                plain_text(value));
    return line;
}

/// Prints the server-sent events as they come.
class TracePrinter {
public:
    explicit TracePrinter(bool is_json) : is_json_(is_json) {}

    /// False if there are no more.
    bool read(std::string_view line) {
        constexpr std::string_view data = "data: ";
        constexpr std::string_view event = "event: ";
        if (line.starts_with(event)) event_ = line.substr(event.size());
        if (line.starts_with(data)) print(line.substr(data.size()));
        return event_ != "end";
    }

private:
    void print(std::string_view text) const {
        if (event_ == "begun") return fmt::print(stderr, "tracing; Ctrl-C ends it\n");
        if (event_ == "end") return;
        boost::system::error_code error;
        const json::value told = json::parse(text, error);
        if (is_json_ || error || !told.is_object())
            fmt::print("{}\n", text);
        else if (event_ == "lost")
            fmt::print("{} events lost: there were more than could be sent\n",
                       number_at(told, "lost"));
        else
            fmt::print("{}\n", trace_line(told.get_object()));
        std::fflush(stdout);
    }

    const bool is_json_;
    std::string event_;
};

struct TraceOptions {
    std::optional<std::string> user{};
    std::optional<std::string> client{};
    std::optional<std::string> address{};
    std::string time = "1h";
};

constexpr Millis longest_trace_time = 3'600'000;

Millis trace_time(const std::string& text) {
    return parse_duration("--for", text, 1000, longest_trace_time);
}

/// Returns the fault, or "".
std::string fault_of_trace_time(const std::string& text) {
    try {
        trace_time(text);
        return {};
    } catch (const std::exception& error) {
        return error.what();
    }
}

int follow_trace(const Ctl& ctl, const TraceOptions& options) {
    const auto seconds = trace_time(options.time) / 1000;
    const auto target = api_target("/api/v1/trace", {{"user", options.user},
                                                     {"client", options.client},
                                                     {"address", options.address},
                                                     {"seconds", std::to_string(seconds)}});
    TracePrinter printer(ctl.json);
    const auto answer =
        ctl.client().follow(target, [&](std::string_view line) { return printer.read(line); });
    if (answer.ok() || answer.status == 0) return ctl_done;
    fmt::print(stderr, "pulsegate ctl: {}\n", answer.refusal());
    return ctl_refused;
}

}  // namespace

void add_trace(CLI::App& app, Ctl& ctl) {
    const auto options = std::make_shared<TraceOptions>();
    auto* const trace = app.add_subcommand("trace",
                                           "Follow a user, a client or an address live: logins, "
                                           "refusals, packets, ends of connections");
    auto* const target = trace->add_option_group("target");
    target->add_option("--user", options->user, "All clients that are this user, or claim to be");
    target->add_option("--client", options->client, "All clients with this client id");
    target->add_option("--address", options->address, "All connections from this address");
    target->require_option(1);
    trace->add_option("--for", options->time, "Stop after this time, up to 1h")
        ->check(fault_of_trace_time)
        ->capture_default_str();
    trace->callback(
        [&ctl, options] { ctl.run = [&ctl, options] { return follow_trace(ctl, *options); }; });
}

}  // namespace pulsegate
