#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "server/commands/ctl/gateway_client.h"

namespace pulsegate {

/// The exit status of `pulsegate ctl`.
enum CtlStatus : int {
    ctl_done = 0,
    ctl_refused = 1,  ///< the gateway refuses, or is not well
    ctl_usage = 2,    ///< the command line is wrong
    ctl_away = 3,     ///< there is no gateway
};

/// The parts that the commands of `pulsegate ctl` share: the gateway, and how they print.
class Ctl {
public:
    /// The chosen command. It is called when the whole command line is read.
    std::function<int()> run;

    // Options of all commands.
    GatewayPlace place{};
    bool json = false;

    GatewayClient client() const { return GatewayClient(place); }

    /// Asks the gateway, and prints the answer with `print`, or unchanged with --json. A refusal
    /// goes to standard error.
    int ask(GatewayClient::Verb verb, const std::string& target, const std::string& body,
            const std::function<void(const boost::json::value&)>& print) const {
        return show(client().ask(verb, target, body), print);
    }
    int get(const std::string& target,
            const std::function<void(const boost::json::value&)>& print) const {
        return show(client().get(target), print);
    }

private:
    int show(const GatewayClient::Answer& answer,
             const std::function<void(const boost::json::value&)>& print) const;
};

/// The target of a request: parameters without a value are left out.
std::string api_target(
    std::string path,
    std::initializer_list<std::pair<std::string_view, std::optional<std::string>>> parameters);

// Each function adds its commands to the command line.

/// status, top, check.
void add_observing(CLI::App& app, Ctl& ctl);
/// clients, user, why, kick, ban, unban, bans.
void add_clients(CLI::App& app, Ctl& ctl);
/// publish, drain, reload, backup.
void add_operating(CLI::App& app, Ctl& ctl);
/// upgrade.
void add_upgrade(CLI::App& app, Ctl& ctl);
/// trace.
void add_trace(CLI::App& app, Ctl& ctl);
/// completion.
void add_completion(CLI::App& app, Ctl& ctl);

}  // namespace pulsegate
