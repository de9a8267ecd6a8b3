// Connections, logins, sessions and users.
#include <algorithm>
#include <string>
#include <string_view>

#include "protocol/reason.h"
#include "protocol/reason_rules.h"
#include "server/base/limit.h"
#include "server/base/tls_idle.h"
#include "server/http/metrics/metric_groups.h"

namespace pulsegate {

namespace {

/// Makes the value of a label of words such as "not authorized".
std::string label_value(std::string_view words) {
    std::string value(words);
    std::ranges::replace(value, ' ', '_');
    return value;
}

void add_tls_family(Families& families) {
    auto& handshakes =
        families.counters("pulsegate_tls_handshakes_total",
                          "TLS handshakes of clients, by the state that is kept afterwards: small "
                          "(only the keys), or the reason why OpenSSL's object is kept.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        for (std::size_t i = 0; i < tls_idle_names.size(); ++i)
            Families::add(handshakes,
                          {Families::shard_label(shard), {"idle", std::string(tls_idle_names[i])}},
                          families.shards()[shard].counters.tls_handshakes[i]);
}

void add_connection_families(Families& families) {
    auto& connections = families.gauges("pulsegate_connections", "Open connections, by listener.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        for (const auto& [listener, open] : families.shards()[shard].listeners)
            Families::add(connections, {Families::shard_label(shard), {"listener", listener}},
                          std::uint64_t{open});
    families.counter("pulsegate_connections_accepted_total", "Connections accepted.",
                     count_of(&Counters::accepted));
    families.counter("pulsegate_handshakes_refused_total",
                     "Connections refused at the PROXY header, TLS or WebSocket handshake, or "
                     "because of their address.",
                     count_of(&Counters::handshakes_refused));
    add_tls_family(families);
    families.counter("pulsegate_login_timeouts_total",
                     "Connections closed because they sent no CONNECT in time, or it was not "
                     "answered in time.",
                     count_of(&Counters::login_timeouts));
    families.counter("pulsegate_bad_packets_total",
                     "Connections closed for a malformed or illegal packet.",
                     count_of(&Counters::bad_packets));
}

/// All reasons that a CONNACK may have. A reason that has not occurred yet is 0, so its rate is
/// right when it first occurs.
void add_refusal_families(Families& families) {
    auto& refused = families.counters("pulsegate_logins_refused_total",
                                      "CONNECTs refused, by the reason code of MQTT 5.0. Malformed "
                                      "CONNECTs count in pulsegate_bad_packets_total.");
    constexpr int first = 0x80;
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard) {
        const auto& counts = families.shards()[shard].counters.logins_refused;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            const auto code = static_cast<std::uint8_t>(first + i);
            const bool is_usual = packets_with(code, Sender::server) & packets::connack;
            if (is_usual || counts[i] > 0)
                Families::add(refused,
                              {Families::shard_label(shard),
                               {"reason", label_value(name(static_cast<Reason>(code)))}},
                              counts[i]);
        }
    }
}

void add_login_families(Families& families) {
    families.counter("pulsegate_logins_total", "CONNECTs accepted.", count_of(&Counters::logins));
    add_refusal_families(families);
    families.gauge("pulsegate_logins_waiting", "CONNECTs that wait for login-rate or max-loop-lag.",
                   state_of(&ShardStatus::logins_waiting));
    families.counter("pulsegate_takeovers_total", "Sessions taken over by a new connection.",
                     count_of(&Counters::takeovers));
}

void add_limit_families(Families& families) {
    auto& hits = families.counters("pulsegate_limit_hits_total",
                                   "How often clients reached a limit, by its setting.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        for (std::size_t limit = 0; limit < limits; ++limit)
            Families::add(
                hits, {Families::shard_label(shard), {"limit", std::string(limit_names[limit])}},
                families.shards()[shard].counters.hits[limit]);
}

void add_session_families(Families& families) {
    families.gauge("pulsegate_sessions", "Clients logged in.", state_of(&ShardStatus::connected));
    families.gauge("pulsegate_forwarded_clients",
                   "Clients that are connected to another node, their edge.",
                   state_of(&ShardStatus::forwarded));
    families.gauge("pulsegate_sessions_disconnected", "Sessions of disconnected clients.",
                   state_of(&ShardStatus::disconnected));
    families.gauge("pulsegate_subscriptions", "Subscriptions.",
                   state_of(&ShardStatus::subscriptions));
    families.gauge("pulsegate_users_known", "Users known, online or offline.",
                   state_of(&ShardStatus::users));
    families.gauge("pulsegate_users_online", "Users online.", state_of(&ShardStatus::online));
    families.counter("pulsegate_expiries_total", "Clients disconnected by the silence limit.",
                     count_of(&Counters::expiries));
    families.counter("pulsegate_expiry_false_alarms_total",
                     "Clients at the silence limit that were kept because they had sent something.",
                     count_of(&Counters::expiry_false_alarms));
    families.counter("pulsegate_sessions_expired_total", "Sessions ended by their session expiry.",
                     count_of(&Counters::sessions_expired));
    families.counter("pulsegate_sessions_over_quota_total",
                     "Sessions ended early because of persistent-session-quota, "
                     "persistent-session-bytes or memory-budget.",
                     count_of(&Counters::sessions_over_quota));
}

}  // namespace

void add_client_metrics(Families& families) {
    add_connection_families(families);
    add_login_families(families);
    add_limit_families(families);
    add_session_families(families);
}

}  // namespace pulsegate
