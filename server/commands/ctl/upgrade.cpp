#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "server/commands/ctl/ctl_commands.h"
#include "server/commands/ctl/text_table.h"
#include "server/limits/upgrade_state.h"

namespace pulsegate {

namespace {

namespace json = boost::json;
using Verb = GatewayClient::Verb;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct UpgradeOptions {
    std::string program{};
    bool is_rehearsal = false;
    std::optional<double> longest_pause{};
};

/// Waits until the upgrade has ended, whichever of the two processes says so. While one takes over
/// from the other, requests may fail, but one of the two always listens.
GatewayClient::Answer await_end(const GatewayClient& gateway, std::chrono::seconds pause) {
    auto heard = Clock::now();
    constexpr auto longest_silence = 70s;
    const auto deadline = heard + pause + longest_silence;
    for (;;) {
        try {
            // During the pause, no answer comes, nor for a minute if the rooms are divided anew.
            auto answer = gateway.get("/api/v1/upgrade", pause + longest_silence);
            heard = Clock::now();
            const auto state = answer.ok() ? answer.json() : json::value();
            const auto& under_way = member_at(state, "under_way");
            const bool is_over = !under_way.is_bool() || !under_way.get_bool();
            if (is_over || heard >= deadline) return answer;
        } catch (const NobodyListens&) {
            throw GatewayAway(fmt::format(
                "{}: nobody listens there any more; the gateway has ended during the upgrade, or "
                "its settings name another admin-socket now: its log says which",
                gateway.place().text()));
        } catch (const GatewayAway&) {
            if (Clock::now() >= heard + pause + longest_silence) throw;
        }
        std::this_thread::sleep_for(50ms);
    }
}

std::string left_text(const json::value& left) {
    std::map<std::string, std::uint64_t> clients;
    if (left.is_object())
        for (const auto& each : left.get_object())
            clients[each.key()] = each.value().to_number<std::uint64_t>();
    return text_of_left(clients);
}

int say(const GatewayClient::Answer& answer, bool as_json) {
    const auto state = answer.json();
    const auto& last = member_at(state, "last");
    if (answer.ok() && last.is_null()) {
        fmt::print(stderr,
                   "pulsegate ctl: the gateway has ended during the upgrade, and has been started "
                   "again; its log says why it ended\n");
        return ctl_away;
    }
    const std::string outcome = plain_text(member_at(last, "outcome"));
    if (as_json) fmt::print("{}", answer.text);
    if (outcome != "completed" && outcome != "rehearsed") {
        fmt::print(stderr, "pulsegate ctl: not upgraded, the gateway continues as before: {}\n",
                   plain_text(member_at(last, "why")));
        return ctl_refused;
    }
    if (!as_json)
        fmt::print("{} {}: {} clients {}, {}, pause {} s\n",
                   outcome == "completed" ? "upgraded to" : "rehearsed the upgrade to",
                   plain_text(member_at(last, "to")), number_at(last, "moved"),
                   outcome == "completed" ? "moved" : "would move",
                   left_text(member_at(last, "left")), plain_text(member_at(last, "pause")));
    return ctl_done;
}

int upgrade(const Ctl& ctl, const UpgradeOptions& options) {
    json::object order{{"dry_run", options.is_rehearsal}};
    if (options.longest_pause) order["longest_pause"] = *options.longest_pause;
    if (!options.program.empty())
        order["program"] = std::filesystem::absolute(options.program).string();
    const GatewayClient gateway = ctl.client();
    const auto begun = gateway.ask(Verb::post, "/api/v1/upgrade", json::serialize(order));
    if (!begun.ok()) {
        fmt::print(stderr, "pulsegate ctl: {}\n", begun.refusal());
        return ctl_refused;
    }
    constexpr double most_by_default = 20;  // the gateway's, with 300,000 clients
    const std::chrono::duration<double> pause(options.longest_pause.value_or(most_by_default));
    return say(await_end(gateway, std::chrono::ceil<std::chrono::seconds>(pause)), ctl.json);
}

}  // namespace

void add_upgrade(CLI::App& app, Ctl& ctl) {
    const auto options = std::make_shared<UpgradeOptions>();
    auto* const command = app.add_subcommand("upgrade",
                                             "Replace the running program with a new one, or start "
                                             "it again; clients keep their connections");
    command->add_option("PROGRAM", options->program,
                        "Path of the new program; default: the path of the running one");
    command->add_flag("--dry-run", options->is_rehearsal,
                      "Do everything except the last step; the running program continues");
    command
        ->add_option(
            "--longest-pause", options->longest_pause,
            "Maximum seconds that clients wait; after that, the running program continues; "
            "default: 1 for each 20,000 clients and each 100,000 sessions, users and messages, at "
            "least 1")
        ->check(CLI::Range(0.1, 600.0));
    command->callback(
        [&ctl, options] { ctl.run = [&ctl, options] { return upgrade(ctl, *options); }; });
}

}  // namespace pulsegate
