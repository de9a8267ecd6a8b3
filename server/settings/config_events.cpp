#include <algorithm>

#include "server/settings/config_options.h"

namespace pulsegate {

void add_events(Settings& settings, Config& config) {
    WebhookSettings& webhook = config.webhook;
    settings.any("webhook", "URL", "",
                 "Your backend, http or https://HOST:PORT/PATH: it is told of presence changes, "
                 "logins, and messages for users who are away",
                 [&](auto& name, auto& text) { webhook.url = parse_hook_url(name, text); });
    settings.any("webhook-events", "LIST", "presence,login,login_refused,message_waiting",
                 "What the webhook is told of",
                 [&](auto& name, auto& text) { webhook.events = parse_event_kinds(name, text); });
    settings.on_off("webhook-payload", config.webhook_payload,
                    "Whether message_waiting has the message's payload, up to 4 KiB");
    settings.any("webhook-secret-file", "FILE", "",
                 "File with the secret that requests to the webhook are signed with",
                 [&](auto&, auto& text) { webhook.secret_file = text; });
    settings.any("webhook-token-file", "FILE", "",
                 "File with the bearer token that is sent to the webhook",
                 [&](auto&, auto& text) { webhook.token_file = text; });
    settings.any(
        "webhook-ca-file", "FILE", "",
        "CAs that may have signed the webhook's certificate, PEM; default: the system's CAs",
        [&](auto&, auto& text) { webhook.ca_file = text; });
    settings.count("webhook-batch", webhook.batch, 1, 1000, "100",
                   "Events in one request to the webhook, at most");
    settings.duration("webhook-timeout", webhook.timeout, second, 600 * second, "10s",
                      "How long the webhook's answer may take; then the request is repeated");
    settings.any("presence-feed", "on|off", "on, off with data = none",
                 "Whether changes of presence are kept for GET /api/v1/presence/changes",
                 [&](auto& name, auto& text) { config.presence_feed = parse_switch(name, text); });
    settings.size("event-log-bytes", config.event_log_bytes, 64 * 1024, most_bytes,
                  "256MiB on disk, 16MiB in memory",
                  "How many bytes of events are kept on disk for the webhook and the presence "
                  "feed; beyond it the oldest are deleted");
}

namespace {

/// On disk it depends on the room that there is, which the store knows.
void choose_event_log_bytes(Config& config) {
    constexpr std::size_t mib = 1024 * 1024;
    if (config.event_log_bytes == 0 && config.data.empty()) config.event_log_bytes = 16 * mib;
    if (config.max_data_bytes != 0 && config.event_log_bytes > config.max_data_bytes / 2)
        throw ConfigError(
            "event-log-bytes: more than half of max-data-bytes, which is for messages too");
}

}  // namespace

void complete_events(Config& config) {
    choose_event_log_bytes(config);
    if (config.webhook.url) config.recorded_events |= config.webhook.events;
    if (config.keeps_presence()) config.recorded_events |= kinds_of(EventKind::presence);
}

/// What nobody would use is a mistake.
void check_events(const Config& config) {
    const WebhookSettings& webhook = config.webhook;
    const char* unused = nullptr;
    if (!webhook.secret_file.empty()) unused = "webhook-secret-file";
    if (!webhook.token_file.empty()) unused = "webhook-token-file";
    if (unused && !webhook.url)
        throw ConfigError(std::string(unused) +
                          ": there is no webhook; name its URL with --webhook");
    if (!webhook.ca_file.empty() && !(webhook.url && webhook.url->tls))
        throw ConfigError(
            "webhook-ca-file: the webhook has no certificate to check; name one with https://");
}

}  // namespace pulsegate
