#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/base/text/url.h"
#include "server/commands/ctl/ctl_commands.h"
#include "server/commands/ctl/text_table.h"

namespace pulsegate {

namespace {

namespace json = boost::json;
using Verb = GatewayClient::Verb;

constexpr const char* page_option = "Page to print, as named at the end of the page before it";

void print_next(const json::value& answer) {
    if (const auto& next = member_at(answer, "next"); !next.is_null())
        fmt::print("more: --after {}\n", plain_text(next));
}

void print_clients(const json::value& answer) {
    fmt::print("{}", text_table(member_at(answer, "clients").as_array(),
                                {{"user", "USER"},
                                 {"client", "CLIENT"},
                                 {"connected", "CONNECTED"},
                                 {"address", "ADDRESS"},
                                 {"listener", "LISTENER"},
                                 {"mqtt", "MQTT"},
                                 {"connected_since", "SINCE"},
                                 {"queued", "QUEUED"},
                                 {"in_flight", "IN FLIGHT"},
                                 {"subscriptions", "SUBSCRIPTIONS"}}));
    print_next(answer);
}

void print_bans(const json::value& answer) {
    fmt::print("{}", text_table(member_at(answer, "bans").as_array(), {{"user", "USER"},
                                                                       {"client", "CLIENT"},
                                                                       {"address", "ADDRESS"},
                                                                       {"by", "BY"},
                                                                       {"ends", "ENDS"},
                                                                       {"reason", "REASON"}}));
    print_next(answer);
}

void add_list(CLI::App& app, Ctl& ctl) {
    struct Options {
        std::optional<std::string> user{};
        std::optional<std::string> client{};
        std::optional<std::string> address{};
        std::optional<std::string> listener{};
        std::optional<std::string> state{};
        std::optional<std::string> after{};
        std::optional<std::string> limit{};
    };
    const auto options = std::make_shared<Options>();
    auto* const list = app.add_subcommand("clients", "List clients");
    list->add_option("--user", options->user, "Only clients of this user");
    list->add_option("--client", options->client,
                     "Only clients with an id that begins with this text");
    list->add_option("--address", options->address, "Only clients from this address or network");
    list->add_option("--listener", options->listener, "Only clients of this listener");
    list->add_option("--state", options->state, "Only clients in this state: connected or away");
    list->add_option("--after", options->after, page_option);
    list->add_option("--limit", options->limit, "Clients per page");
    list->callback([&ctl, options] {
        ctl.run = [&ctl, options] {
            const auto target = api_target("/api/v1/clients", {{"user", options->user},
                                                               {"client", options->client},
                                                               {"address", options->address},
                                                               {"listener", options->listener},
                                                               {"state", options->state},
                                                               {"after", options->after},
                                                               {"limit", options->limit}});
            return ctl.get(target, print_clients);
        };
    });
}

std::string path_of_user(const std::string& user, std::string_view rest = {}) {
    return "/api/v1/users/" + path_segment_of(user) + std::string(rest);
}

void print_presence(const json::value& presence) {
    fmt::print("{}: {} since {} ({}), last packet {}\n", plain_text(member_at(presence, "user")),
               plain_text(member_at(presence, "state")), plain_text(member_at(presence, "since")),
               plain_text(member_at(presence, "cause")),
               plain_text(member_at(presence, "last_seen")));
}

/// Presence, and the user's clients.
int print_user(const Ctl& ctl, const std::string& user) {
    const int status = ctl.get(path_of_user(user), print_presence);
    if (status != ctl_done || ctl.json) return status;
    const auto clients = ctl.client().get(api_target("/api/v1/clients", {{"user", user}}));
    if (clients.ok()) print_clients(clients.json());
    return ctl_done;
}

void add_user(CLI::App& app, Ctl& ctl) {
    const auto user = std::make_shared<std::string>();
    auto* const show = app.add_subcommand("user", "Show a user's presence and clients");
    show->add_option("USER", *user)->required();
    show->callback([&ctl, user] { ctl.run = [&ctl, user] { return print_user(ctl, *user); }; });
}

/// Where the user is now, and what happened last, the latest first.
int explain(const Ctl& ctl, const std::string& user) {
    const auto presence = ctl.client().get(path_of_user(user));
    if (presence.ok() && !ctl.json)
        print_presence(presence.json());
    else if (!ctl.json)
        fmt::print("{}: {}\n", user, presence.refusal());
    return ctl.get(path_of_user(user, "/history"), [](const json::value& answer) {
        fmt::print("{}",
                   text_table(member_at(answer, "history").as_array(), {{"time", "TIME"},
                                                                        {"event", "EVENT"},
                                                                        {"count", "TIMES"},
                                                                        {"cause", "CAUSE"},
                                                                        {"reason", "REASON"},
                                                                        {"why", "WHY"},
                                                                        {"silence", "SILENCE"},
                                                                        {"client", "CLIENT"},
                                                                        {"address", "ADDRESS"},
                                                                        {"listener", "LISTENER"}}));
    });
}

void add_why(CLI::App& app, Ctl& ctl) {
    const auto user = std::make_shared<std::string>();
    auto* const why = app.add_subcommand(
        "why", "Show why a user is online or offline: the latest events, including refused logins");
    why->add_option("USER", *user)->required();
    why->callback([&ctl, user] { ctl.run = [&ctl, user] { return explain(ctl, *user); }; });
}

void add_kick(CLI::App& app, Ctl& ctl) {
    struct Options {
        std::string user{};
        std::optional<std::string> client{};
        bool ends_sessions = false;
    };
    const auto options = std::make_shared<Options>();
    auto* const kick = app.add_subcommand("kick", "Disconnect a user's clients");
    kick->add_option("USER", options->user)->required();
    kick->add_option("--client", options->client, "Only the client with this id");
    kick->add_flag("--end-sessions", options->ends_sessions, "End their sessions as well");
    kick->callback([&ctl, options] {
        ctl.run = [&ctl, options] {
            const auto sessions =
                options->ends_sessions ? std::optional<std::string>("end") : std::nullopt;
            const auto target = api_target(
                "/api/v1/clients",
                {{"user", options->user}, {"client", options->client}, {"sessions", sessions}});
            return ctl.ask(Verb::delete_, target, {}, [](const json::value& answer) {
                fmt::print("{} disconnected, {} sessions ended\n",
                           number_at(answer, "disconnected"), number_at(answer, "ended"));
            });
        };
    });
}

/// The user, client or address that a ban is about.
struct BanOptions {
    std::optional<std::string> user{};
    std::optional<std::string> client{};
    std::optional<std::string> address{};
    std::optional<std::string> seconds{};
    std::optional<std::string> reason{};

    void add_to(CLI::App& command) {
        command.add_option("--user", user, "All clients of this user");
        command.add_option("--client", client, "Only that user's client with this id");
        command.add_option("--address", address, "All clients from this address");
    }
    std::string target() const {
        return api_target("/api/v1/bans", {{"user", user},
                                           {"client", client},
                                           {"address", address},
                                           {"seconds", seconds},
                                           {"reason", reason}});
    }
};

void add_bans(CLI::App& app, Ctl& ctl) {
    const auto options = std::make_shared<BanOptions>();
    auto* const ban = app.add_subcommand("ban", "Ban a user, a client or an address");
    options->add_to(*ban);
    ban->add_option("--seconds", options->seconds, "How long the ban lasts; default: permanently");
    ban->add_option("--reason", options->reason, "Reason, for the log and the list of bans");
    ban->callback([&ctl, options] {
        ctl.run = [&ctl, options] {
            return ctl.ask(Verb::put, options->target(), {}, [](const json::value& answer) {
                fmt::print("banned, {} disconnected\n", number_at(answer, "disconnected"));
            });
        };
    });

    const auto lifted = std::make_shared<BanOptions>();
    auto* const unban = app.add_subcommand("unban", "Lift a ban");
    lifted->add_to(*unban);
    unban->callback([&ctl, lifted] {
        ctl.run = [&ctl, lifted] {
            return ctl.ask(Verb::delete_, lifted->target(), {},
                           [](const json::value&) { fmt::print("lifted\n"); });
        };
    });

    struct ListOptions {
        std::optional<std::string> user{};
        std::optional<std::string> after{};
        std::optional<std::string> limit{};
    };
    const auto listed = std::make_shared<ListOptions>();
    auto* const bans = app.add_subcommand("bans", "List the bans");
    bans->add_option("--user", listed->user, "Only bans of this user and of its clients");
    bans->add_option("--after", listed->after, page_option);
    bans->add_option("--limit", listed->limit, "Bans per page");
    bans->callback([&ctl, listed] {
        ctl.run = [&ctl, listed] {
            return ctl.get(api_target("/api/v1/bans", {{"user", listed->user},
                                                       {"after", listed->after},
                                                       {"limit", listed->limit}}),
                           print_bans);
        };
    });
}

}  // namespace

void add_clients(CLI::App& app, Ctl& ctl) {
    add_list(app, ctl);
    add_user(app, ctl);
    add_why(app, ctl);
    add_kick(app, ctl);
    add_bans(app, ctl);
}

}  // namespace pulsegate
