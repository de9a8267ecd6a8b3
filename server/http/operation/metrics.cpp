#include "server/http/operation/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "server/events/webhook.h"
#include "server/http/questions/shard_questions.h"
#include "server/limits/admission.h"
#include "server/login/authenticator.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Label = ClientMetric::Label;

/// Collects families of metrics, one value or more for each shard.
class Families {
public:
    explicit Families(const std::vector<ShardStatus>& shards) : shards_(shards) {}

    template <class Value>
    void counter(const char* name, const char* help, Value value) {
        per_shard(name, help, MetricType::Counter, value);
    }

    template <class Value>
    void gauge(const char* name, const char* help, Value value) {
        per_shard(name, help, MetricType::Gauge, value);
    }

    void process_gauge(const char* name, const char* help, double value) {
        add(family(name, help, MetricType::Gauge), {}, value);
    }

    void process_counter(const char* name, const char* help, std::uint64_t value) {
        add(family(name, help, MetricType::Counter), {}, value);
    }

    /// A counter for each packet type and direction.
    void packets(const char* name, const char* help, Counters::PerPacket Counters::*counts) {
        auto& packets = family(name, help, MetricType::Counter);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard)
            for (auto type = PacketType::connect; type <= PacketType::auth;
                 type = static_cast<PacketType>(static_cast<int>(type) + 1))
                add(packets, {label(shard), {"type", lower(pulsegate::name(type))}},
                    (shards_[shard].counters.*counts)[static_cast<std::size_t>(type)]);
    }

    void drops(const char* name, const char* help) {
        auto& drops = family(name, help, MetricType::Counter);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
            const Counters& counters = shards_[shard].counters;
            const std::pair<const char*, std::uint64_t> reasons[] = {
                {"too_large_for_client", counters.dropped_too_large},
                {"refused", counters.dropped_refused},
                {"expired", counters.dropped_expired},
                {"queue_full", counters.dropped_queue_full},
                {"session_ended", counters.dropped_session_ended},
                {"damaged", counters.dropped_damaged},
                {"no_member", counters.dropped_no_member},
                {"no_inbox", counters.dropped_no_inbox},
                {"no_receiver", counters.dropped_no_receiver},
                {"not_retained", counters.dropped_not_retained},
            };
            for (const auto& [reason, count] : reasons)
                add(drops, {label(shard), {"reason", reason}}, count);
        }
    }

    void limits(const char* name, const char* help) {
        auto& hits = family(name, help, MetricType::Counter);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard)
            for (std::size_t limit = 0; limit < pulsegate::limits; ++limit)
                add(hits, {label(shard), {"limit", std::string(limit_names[limit])}},
                    shards_[shard].counters.hits[limit]);
    }

    void wheel_slots(const char* name, const char* help) {
        auto& slots = family(name, help, MetricType::Gauge);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard)
            for (std::size_t slot = 0; slot < Wheel::slots; ++slot)
                add(slots, {label(shard), {"slot", std::to_string(slot)}},
                    shards_[shard].slots[slot]);
    }

    void loop_lag(const char* name, const char* help) {
        auto& lag = family(name, help, MetricType::Histogram);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard)
            add(lag, {label(shard)}, shards_[shard].counters.lag);
    }

    void event_log(const EventLogState& log) {
        process_counter("pulsegate_events_total", "Events that were ever in the log of events.",
                        log.last);
        process_gauge("pulsegate_event_log_bytes", "Bytes of the events that are kept.",
                      static_cast<double>(log.bytes));
        counter("pulsegate_events_withheld_total",
                "Events that were not written to the log, because peers caused too many.",
                [](const ShardStatus& shard) { return shard.counters.events_withheld; });
    }

    void webhook(const WebhookCounters& webhook, const EventLogState& log) {
        auto& requests = family("pulsegate_webhook_requests_total",
                                "Requests to the webhook, by result.", MetricType::Counter);
        for (const auto& [result, count] : {std::pair{"accepted", webhook.accepted},
                                            {"refused", webhook.refused},
                                            {"failed", webhook.failed}})
            add(requests, {{"result", result}}, count);
        process_counter("pulsegate_webhook_events_total", "Events that the webhook has taken.",
                        webhook.delivered);
        process_gauge("pulsegate_webhook_events_waiting",
                      "Events in the log that the webhook is to be told of.",
                      static_cast<double>(log.waiting));
        process_counter("pulsegate_webhook_events_lost_total",
                        "Events that were deleted before the webhook had taken them, also as dead "
                        "letters.",
                        log.lost);
        process_gauge("pulsegate_webhook_dead_letters", "Events that the webhook refuses.",
                      static_cast<double>(log.dead_letters));
        add(family("pulsegate_webhook_seconds", "How long requests to the webhook took.",
                   MetricType::Histogram),
            {}, webhook.wait);
    }

    void auth_hook(const HookCounters& hook) {
        auto& requests =
            family("pulsegate_auth_hook_requests_total",
                   "Logins for the auth hook, by result; busy: refused without a request; revoked: "
                   "allowed, but refused because a user's logins were revoked meanwhile.",
                   MetricType::Counter);
        for (const auto& [result, count] : {std::pair{"allowed", hook.allowed},
                                            {"denied", hook.denied},
                                            {"failed", hook.failed},
                                            {"busy", hook.busy},
                                            {"revoked", hook.revoked}})
            add(requests, {{"result", result}}, count);
        process_counter(
            "pulsegate_auth_hook_cache_hits_total",
            "Logins decided by an earlier answer of the auth hook, or by a request in flight.",
            hook.remembered);
        add(family("pulsegate_auth_hook_seconds", "How long requests to the auth hook took.",
                   MetricType::Histogram),
            {}, hook.wait);
    }

    std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

private:
    static std::string lower(std::string_view text) {
        std::string out(text);
        std::transform(out.begin(), out.end(), out.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        return out;
    }

    static Label label(std::size_t shard) { return {"shard", std::to_string(shard)}; }

    template <class Value>
    static void add(MetricFamily& family, std::vector<Label> labels, Value value) {
        ClientMetric& metric = family.metric.emplace_back();
        metric.label = std::move(labels);
        auto& number =
            family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value;
        number = static_cast<double>(value);
    }

    /// Prometheus counts in seconds, and in each bucket those below as well.
    template <Millis... Bounds>
    static void add(MetricFamily& family, std::vector<Label> labels,
                    const Histogram<Bounds...>& times) {
        ClientMetric& metric = family.metric.emplace_back();
        metric.label = std::move(labels);
        std::uint64_t below = 0;
        for (std::size_t i = 0; i < times.bounds.size(); ++i) {
            below += times.counts[i];
            metric.histogram.bucket.push_back({below, static_cast<double>(times.bounds[i]) / 1000});
        }
        metric.histogram.sample_count = below + times.counts.back();
        metric.histogram.sample_sum = static_cast<double>(times.sum) / 1000;
    }

    MetricFamily& family(const char* name, const char* help, MetricType type) {
        MetricFamily& family = families_.emplace_back();
        family.name = name;
        family.help = help;
        family.type = type;
        return family;
    }

    template <class Value>
    void per_shard(const char* name, const char* help, MetricType type, Value value) {
        auto& metrics = family(name, help, type);
        for (std::size_t shard = 0; shard < shards_.size(); ++shard)
            add(metrics, {label(shard)}, value(shards_[shard]));
    }

    const std::vector<ShardStatus>& shards_;
    std::vector<MetricFamily> families_;
};

std::string metrics_text(const std::vector<ShardStatus>& shards, const Admission& admission,
                         const std::optional<HookCounters>& hook, const EventLogState& log,
                         const Webhook* webhook) {
    const auto count = [](std::uint64_t Counters::*member) {
        return [member](const ShardStatus& shard) { return shard.counters.*member; };
    };
    const auto state = [](std::size_t ShardStatus::*member) {
        return [member](const ShardStatus& shard) { return shard.*member; };
    };

    Families families(shards);
    families.gauge("pulsegate_connections", "Open connections.", state(&ShardStatus::connections));
    families.gauge("pulsegate_sessions", "Clients logged in.", state(&ShardStatus::connected));
    families.gauge("pulsegate_sessions_disconnected", "Sessions of disconnected clients.",
                   state(&ShardStatus::disconnected));
    families.gauge("pulsegate_messages_queued", "Messages in the queues of clients.",
                   state(&ShardStatus::waiting));
    families.gauge("pulsegate_retained_messages", "Retained messages; each shard has them all.",
                   state(&ShardStatus::retained));
    families.gauge("pulsegate_retained_bytes", "Approximate memory of the retained messages.",
                   state(&ShardStatus::retained_bytes));
    families.counter("pulsegate_store_messages_total",
                     "Messages of QoS 1 and 2 that were stored for a session.",
                     [](const ShardStatus& shard) { return shard.stored; });
    families.counter("pulsegate_store_spared_total",
                     "Messages of QoS 1 that stored sessions acknowledged before they had to be "
                     "stored.",
                     [](const ShardStatus& shard) { return shard.spared; });
    families.gauge("pulsegate_delayed_messages", "Messages that wait to be published later.",
                   [](const ShardStatus& shard) { return shard.delayed.messages; });
    families.gauge("pulsegate_delayed_bytes", "Approximate room that they take.",
                   [](const ShardStatus& shard) { return shard.delayed.bytes; });
    families.counter("pulsegate_delayed_published_total", "Delayed messages that were published.",
                     count(&Counters::delayed_published));
    families.gauge("pulsegate_store_refuses", "1: the disk is in trouble, and nothing is stored.",
                   [](const ShardStatus& shard) { return shard.store_refuses ? 1u : 0u; });
    families.counter(
        "pulsegate_store_left_out_total",
        "Operations that the database never takes, whatever the disk does; the log names "
        "them.",
        [](const ShardStatus& shard) { return shard.left_out; });
    families.counter(
        "pulsegate_store_damaged_total",
        "Pages and rows of the store that were found damaged since the start, also those that were "
        "mended; the log names them.",
        [](const ShardStatus& shard) { return shard.damaged; });
    families.gauge(
        "pulsegate_store_damage_timestamp_seconds",
        "When a start has found files of the store damaged or missing, so that something "
        "acknowledged may be lost; 0: never, or the file damage was deleted since.",
        [](const ShardStatus& shard) { return shard.damage_found; });
    families.gauge("pulsegate_store_bytes", "What is stored takes so much of the disk.",
                   state(&ShardStatus::data_bytes));
    families.gauge("pulsegate_store_max_bytes", "What it may take, see max-data-bytes.",
                   state(&ShardStatus::max_data_bytes));
    families.gauge("pulsegate_subscriptions", "Subscriptions.", state(&ShardStatus::subscriptions));
    families.gauge("pulsegate_users_known", "Users known, online or offline.",
                   state(&ShardStatus::users));
    families.gauge("pulsegate_users_online", "Users online.", state(&ShardStatus::online));

    families.counter("pulsegate_connections_accepted_total", "Connections accepted.",
                     count(&Counters::accepted));
    families.counter("pulsegate_logins_total", "CONNECTs accepted.", count(&Counters::logins));
    families.counter("pulsegate_logins_refused_total", "CONNECTs refused.",
                     count(&Counters::logins_refused));
    families.gauge("pulsegate_logins_waiting", "CONNECTs that wait for login-rate or max-loop-lag.",
                   state(&ShardStatus::logins_waiting));
    families.limits("pulsegate_limit_hits_total",
                    "How often clients reached a limit, by its setting.");
    families.counter("pulsegate_login_timeouts_total",
                     "Connections closed because they sent no CONNECT in time, or it was not "
                     "answered in time.",
                     count(&Counters::login_timeouts));
    families.counter("pulsegate_takeovers_total", "Sessions taken over by a new connection.",
                     count(&Counters::takeovers));
    families.counter("pulsegate_expiries_total", "Clients disconnected by the silence limit.",
                     count(&Counters::expiries));
    families.counter("pulsegate_sessions_expired_total", "Sessions ended by their session expiry.",
                     count(&Counters::sessions_expired));
    families.counter("pulsegate_sessions_over_quota_total",
                     "Sessions ended early because of persistent-session-quota, "
                     "persistent-session-bytes or memory-budget.",
                     count(&Counters::sessions_over_quota));
    families.counter("pulsegate_expiry_false_alarms_total",
                     "Clients at the silence limit that were kept because they had sent something.",
                     count(&Counters::expiry_false_alarms));
    families.counter("pulsegate_handshakes_refused_total",
                     "Connections refused at the PROXY header, TLS or WebSocket handshake, or "
                     "because of their address.",
                     count(&Counters::handshakes_refused));
    families.counter("pulsegate_bad_packets_total",
                     "Connections closed for a malformed or illegal packet.",
                     count(&Counters::bad_packets));

    families.packets("pulsegate_packets_received_total", "MQTT packets received.",
                     &Counters::packets_in);
    families.packets("pulsegate_packets_sent_total", "MQTT packets sent.", &Counters::packets_out);
    families.counter("pulsegate_messages_received_total", "Messages published by clients.",
                     count(&Counters::messages_in));
    families.counter("pulsegate_messages_sent_total", "Messages sent to clients.",
                     count(&Counters::messages_out));
    families.drops("pulsegate_messages_dropped_total",
                   "Messages not delivered, or not retained, by reason.");
    families.counter("pulsegate_bytes_received_total", "Bytes received from clients.",
                     count(&Counters::bytes_in));
    families.counter("pulsegate_bytes_sent_total", "Bytes sent to clients.",
                     count(&Counters::bytes_out));

    families.loop_lag("pulsegate_loop_lag_seconds",
                      "Lag of the event loop: how late its ticks ran.");
    families.gauge("pulsegate_loop_lag_last_seconds", "Lag of the event loop at its last tick.",
                   [](const ShardStatus& shard) {
                       return static_cast<double>(shard.counters.lag_last) / 1000;
                   });
    families.wheel_slots("pulsegate_wheel_slot_nodes",
                         "Connections waiting in each slot of the timing wheel.");

    families.gauge("pulsegate_output_waiting_bytes", "Bytes that wait to be sent to clients.",
                   state(&ShardStatus::backlog));
    families.process_gauge("pulsegate_memory_bytes",
                           "Resident memory, compared with the memory budget.",
                           static_cast<double>(admission.memory()));
    families.process_gauge("pulsegate_memory_budget_bytes",
                           "Memory beyond which new clients are refused.",
                           static_cast<double>(admission.memory_budget()));
    families.process_gauge("pulsegate_open_files_limit", "Limit on open files.",
                           static_cast<double>(admission.file_limit()));
    families.process_gauge(
        "pulsegate_open_files_headroom",
        "Connections left under the limit on open files, or max-connections.",
        static_cast<double>(admission.capacity()) - static_cast<double>(admission.open()));
    if (hook) families.auth_hook(*hook);
    families.event_log(log);
    if (webhook) families.webhook(webhook->counters(), log);
    return families.text();
}

}  // namespace

boost::asio::awaitable<ApiReply> show_metrics(const ApiContext& api, const ApiRequest&) {
    const auto shards = co_await api.shards.status();
    if (!shards) co_return shard_unavailable();
    co_return ApiReply{
        .body = metrics_text(*shards, api.admission, api.authenticator.hook_counters(),
                             api.store.ledger().events(), api.webhook),
        .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace pulsegate
