#include "loadgen/scenario/keys.h"

#include <fmt/format.h>

#include <stdexcept>

#include "loadgen/scenario/values.h"

namespace pulsegate::load {

namespace {

using Text = std::string_view;

double parse_rate_above_zero(Text text) {
    const double rate = parse_rate(text);
    if (rate <= 0) throw std::invalid_argument("write a rate above 0, such as 2000/s");
    return rate;
}

GroupDraft::Messages parse_messages(Text text) {
    if (text == "fill") return std::nullopt;
    return parse_rate(text);
}

void add_peak(ScenarioDraft& draft, Text text) {
    if (text == "none") return draft.scenario.peaks.clear();
    draft.scenario.peaks.push_back(parse_peak(text));
}

void set_receivers(GroupDraft& draft, Text text) {
    const auto receivers = parse_receivers(text);
    draft.group.to_what = receivers.what;
    draft.to = receivers.group;
}

void set_transport(GroupDraft& draft, Text text) {
    draft.group.transport = parse_transport(text);
    draft.group.transport_given = true;
}

}  // namespace

const std::vector<ScenarioKey>& scenario_keys() {
    static const std::vector<ScenarioKey> keys{
        {"about", "text", "", "what the scenario is for, in a line",
         [](ScenarioDraft& draft, Text text) { draft.scenario.about = text; }},
        {"clients", "N", "15000", "number of clients of all groups together, without hostile ones",
         [](ScenarioDraft& draft, Text text) {
             draft.clients = parse_count_between(text, 1, 10'000'000);
         }},
        {"packets", "RATE", "3000/s",
         "packets that all clients send together, including pings; groups with `messages = fill` "
         "share what the other groups leave",
         [](ScenarioDraft& draft, Text text) { draft.packets = parse_rate(text); }},
        {"duration", "TIME", "45s",
         "time from the end of the ramp; extended until silent clients can be judged and storms "
         "are over",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.duration = parse_time_above_zero(text);
         }},
        {"drain", "TIME", "5s", "how long to wait at the end for messages under way",
         [](ScenarioDraft& draft, Text text) { draft.scenario.drain = parse_duration(text); }},
        {"peak", "FROM..TO xFACTOR", "none",
         "a period after the ramp with more or fewer messages, such as `3m..6m x2.5`; may be "
         "repeated",
         add_peak},
        {"limit", "TIME", "1.5 keepalives",
         "silence after which the server must close; an MQTT 5 Server Keep Alive overrides the "
         "default",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.limit = parse_time_above_zero(text);
         }},
        {"tolerance", "TIME", "100ms",
         "allowance for delays of the machine, in addition to limit and tick",
         [](ScenarioDraft& draft, Text text) { draft.scenario.tolerance = parse_duration(text); }},
        {"ping-within", "TIME", "1s",
         "time within which a ping must be answered; messages and acknowledgements may take twice "
         "as long, at least 2 s",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.ping_within = parse_time_above_zero(text);
         }},
        {"message-within", "TIME", "not asked", "the highest allowed p99 of message latency",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.message_within = parse_time_above_zero(text);
         }},
        {"storm-within", "TIME", "60s", "time within which all clients must be back after a storm",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.storm_within = parse_time_above_zero(text);
         }},
        {"storm-factor", "N", "5",
         "how many times its earlier value the other clients' p99 may reach in a storm",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.storm_factor = parse_factor_from(text, 1);
         }},
        {"hostile-after", "TIME", "10s, or a third of `duration`",
         "quiet time from the end of the ramp until the hostile clients come; 0s: they are there "
         "from the start",
         [](ScenarioDraft& draft, Text text) { draft.hostile_after = parse_duration(text); }},
        {"hostile-factor", "N", "5",
         "how many times its earlier value the other clients' p99 may reach with the hostile "
         "clients",
         [](ScenarioDraft& draft, Text text) {
             draft.scenario.hostile_factor = parse_factor_from(text, 1);
         }},
        {"seed", "N", "another in each run", "seed of all random choices, to repeat a run",
         [](ScenarioDraft& draft, Text text) { draft.scenario.seed = parse_count(text); }},
    };
    return keys;
}

const std::vector<GroupKey>& group_keys() {
    static const std::vector<GroupKey> keys{
        {"transport", "tcp\\|tls\\|ws\\|wss", "that of the first server", "how the clients connect",
         set_transport},
        {"version", "3.1.1\\|5", "3.1.1", "protocol version",
         [](GroupDraft& draft, Text text) { draft.group.version = parse_mqtt_version(text); }},
        {"keepalive", "TIME", "20s",
         "keepalive; clients that are not silent ping after 0.75 to 1.0 of it",
         [](GroupDraft& draft, Text text) { draft.group.keepalive = parse_keepalive_time(text); }},
        {"session", "clean\\|kept", "clean",
         "whether the server keeps their sessions while they are away",
         [](GroupDraft& draft, Text text) { draft.group.kept_session = parse_session(text); }},
        {"starts", "TIME", "0s",
         "when the first client arrives; the measured part does not wait for groups that start "
         "later than 0s",
         [](GroupDraft& draft, Text text) { draft.group.starts = parse_duration(text); }},
        {"ramp", "RATE", "2000/s",
         "new connections per second; above the groups: for all groups that do not set it",
         [](GroupDraft& draft, Text text) { draft.ramp = parse_rate_above_zero(text); }},
        {"messages", "RATE\\|fill", "0/s",
         "messages of the group per second; above the groups: for all groups that do not set it; "
         "`fill`: see `packets`",
         [](GroupDraft& draft, Text text) { draft.messages = parse_messages(text); }},
        {"to", "WHAT [of GROUP]", "clients",
         "who receives the messages: `nobody`, `clients` or `rooms`, of this group or of another "
         "group",
         set_receivers},
        {"contacts", "N", "4", "how many clients or rooms each client writes to",
         [](GroupDraft& draft, Text text) {
             draft.group.contacts = parse_count_between(text, 1, 10'000);
         }},
        {"qos", "0\\|1\\|2\\|SHARES", "0",
         "QoS of the messages; with shares, such as `0:80% 1:20%`, each contact gets one QoS",
         [](GroupDraft& draft, Text text) { draft.group.qos = parse_qos_shares(text); }},
        {"size", "BYTES[..BYTES]", "64", "payload of a message, at least 32",
         [](GroupDraft& draft, Text text) { draft.group.size = parse_sizes(text); }},
        {"rooms", "N", "0", "rooms of this group",
         [](GroupDraft& draft, Text text) {
             draft.group.rooms = parse_count_between(text, 0, 10'000'000);
         }},
        {"rooms-each", "N", "1", "rooms that each client of the group is in",
         [](GroupDraft& draft, Text text) {
             draft.group.rooms_each = parse_count_between(text, 1, 1'000);
         }},
        {"watches", "N", "0", "how many clients' presence each client watches",
         [](GroupDraft& draft, Text text) {
             draft.group.watches = parse_count_between(text, 0, 100'000);
         }},
        {"watched", "GROUP", "its own group", "the group that they watch",
         [](GroupDraft& draft, Text text) { draft.watched = text; }},
        {"silent", "PERCENT", "0%", "clients that stop sending without closing",
         [](GroupDraft& draft, Text text) { draft.group.silent = parse_percent(text); }},
        {"silent-after", "TIME", "0s",
         "time from the end of the ramp until the first of them fall silent",
         [](GroupDraft& draft, Text text) { draft.group.silent_after = parse_duration(text); }},
        {"silent-over", "TIME", "keepalive/2",
         "time within which they fall silent, each at a random moment",
         [](GroupDraft& draft, Text text) { draft.silent_over = parse_duration(text); }},
        {"online", "TIME[..TIME]", "no naps", "how long a client stays between two naps",
         [](GroupDraft& draft, Text text) { draft.group.online = parse_times(text); }},
        {"away", "TIME[..TIME]", "0s", "how long a nap takes",
         [](GroupDraft& draft, Text text) { draft.group.away = parse_times(text); }},
        {"leave", "disconnect\\|reset\\|vanish", "disconnect",
         "how clients leave: with DISCONNECT, by a TCP reset, or silently, as in a dead zone",
         [](GroupDraft& draft, Text text) { draft.group.leave = parse_leave(text); }},
        {"network-changes", "RATE", "0/s",
         "new connections while the old one is half open; above the groups: for all groups that do "
         "not set it",
         [](GroupDraft& draft, Text text) { draft.network_changes = parse_rate(text); }},
        {"storm", "N\\|PERCENT", "0",
         "clients that vanish together and come back together; they do not write",
         [](GroupDraft& draft, Text text) { draft.storm = parse_share(text); }},
        {"storm-after", "TIME", "10s", "quiet time from the end of the ramp until the storm",
         [](GroupDraft& draft, Text text) {
             draft.group.storm_after = parse_time_above_zero(text);
         }},
        {"hostile", "KIND", "none",
         "`half-open`, `slow-reader`, `dribbler`, `duel`, `garbage`, `subscriber` or `herd`",
         [](GroupDraft& draft, Text text) { draft.group.hostile = parse_hostile(text); }},
    };
    return keys;
}

std::string key_reference() {
    std::string text = "| Key of the scenario | | Default | |\n|---|---|---|---|\n";
    const auto row = [&](const auto& key) {
        text += fmt::format("| `{}` | {} | {} | {} |\n", key.name, key.values, key.standard,
                            key.meaning);
    };
    for (const auto& key : scenario_keys()) row(key);
    text += "\n| Key of a group, or default of all | | Default | |\n|---|---|---|---|\n";
    text +=
        "| `clients` | N\\|PERCENT | what the others leave | number of clients, or share of all "
        "clients; only in a group |\n";
    for (const auto& key : group_keys()) row(key);
    return text;
}

}  // namespace pulsegate::load
