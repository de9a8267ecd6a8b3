// The auth hook, the key server, the webhook, the event log, and requests to the API.
#include <string>
#include <utility>

#include "server/events/webhook.h"
#include "server/http/metrics/metric_groups.h"
#include "server/http/questions/request_counts.h"
#include "server/login/authenticator.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace {

void add_event_families(Families& families, const EventLogState& log) {
    families.gateway_counter("pulsegate_events_total",
                             "Events that were ever in the log of events.",
                             static_cast<double>(log.last));
    families.gateway_gauge("pulsegate_event_log_bytes", "Bytes of the events that are kept.",
                           static_cast<double>(log.bytes));
    families.counter("pulsegate_events_withheld_total",
                     "Events that were not written to the log, because peers caused too many.",
                     count_of(&Counters::events_withheld));
}

void add_webhook_families(Families& families, const WebhookCounters& webhook,
                          const EventLogState& log) {
    auto& requests = families.counters("pulsegate_webhook_requests_total",
                                       "Requests to the webhook, by result.");
    for (const auto& [result, count] : {std::pair{"accepted", webhook.accepted},
                                        {"refused", webhook.refused},
                                        {"failed", webhook.failed}})
        Families::add(requests, {{"result", result}}, count);
    families.gateway_counter("pulsegate_webhook_events_total", "Events that the webhook has taken.",
                             static_cast<double>(webhook.delivered));
    families.gateway_gauge("pulsegate_webhook_events_waiting",
                           "Events in the log that wait for the webhook.",
                           static_cast<double>(log.waiting));
    families.gateway_counter(
        "pulsegate_webhook_events_lost_total",
        "Events that were deleted before the webhook accepted them, including dead letters.",
        static_cast<double>(log.lost));
    families.gateway_gauge("pulsegate_webhook_dead_letters", "Events that the webhook refuses.",
                           static_cast<double>(log.dead_letters));
    Families::add(
        families.histograms("pulsegate_webhook_seconds", "How long requests to the webhook took."),
        {}, webhook.wait);
}

void add_hook_families(Families& families, const HookCounters& hook) {
    auto& requests =
        families.counters("pulsegate_auth_hook_requests_total",
                          "Requests to the auth hook, by result; revoked: allowed, but refused "
                          "because a user's logins were revoked meanwhile.");
    for (const auto& [result, count] : {std::pair{"allowed", hook.allowed},
                                        {"denied", hook.denied},
                                        {"failed", hook.failed},
                                        {"revoked", hook.revoked}})
        Families::add(requests, {{"result", result}}, count);
    families.gateway_counter(
        "pulsegate_auth_hook_busy_total",
        "Logins refused without a request, because too many waited for the auth hook.",
        static_cast<double>(hook.busy));
    families.gateway_counter(
        "pulsegate_auth_hook_cache_hits_total",
        "Logins decided by an earlier answer of the auth hook, or by a request in flight.",
        static_cast<double>(hook.remembered));
    Families::add(families.histograms("pulsegate_auth_hook_seconds",
                                      "How long requests to the auth hook took."),
                  {}, hook.wait);
}

void add_key_families(Families& families, const KeyServerCounters& keys) {
    auto& fetches = families.counters("pulsegate_jwks_fetches_total",
                                      "Fetches of the keys of jwt-jwks-url, by result.");
    Families::add(fetches, {{"result", "fetched"}}, keys.fetched);
    Families::add(fetches, {{"result", "failed"}}, keys.failed);
    families.gateway_gauge("pulsegate_jwks_keys",
                           "Keys of jwt-jwks-url that are used to check tokens.",
                           static_cast<double>(keys.keys));
    families.gateway_gauge(
        "pulsegate_jwks_age_seconds",
        "Time since keys were last fetched from jwt-jwks-url, or since the start.",
        static_cast<double>(monotonic_now() - keys.last) / 1000);
}

void add_request_families(Families& families, const RequestCounts& requests) {
    auto& answered = families.counters(
        "pulsegate_api_requests_total",
        "Requests to the API that were answered, by the path in its description, method and "
        "status. none: there is no such path; other: the path does not have the method.");
    requests.for_each([&](const RequestCounts::Kind& kind, std::uint64_t count) {
        Families::add(answered,
                      {{"route", std::string(kind.route)},
                       {"method", std::string(kind.method)},
                       {"code", std::to_string(kind.status)}},
                      count);
    });
}

}  // namespace

void add_backend_metrics(Families& families, const ApiContext& api) {
    const EventLogState log = api.store.ledger().events();
    if (const auto hook = api.authenticator.hook_counters()) add_hook_families(families, *hook);
    if (const auto keys = api.authenticator.key_server_counters())
        add_key_families(families, *keys);
    add_event_families(families, log);
    if (api.webhook) add_webhook_families(families, api.webhook->counters(), log);
    add_request_families(families, api.requests);
}

}  // namespace pulsegate
