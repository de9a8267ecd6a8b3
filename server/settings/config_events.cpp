#include <algorithm>

#include "server/settings/config_options.h"

namespace pulsegate {

void add_events(Settings& settings, Config& config) {
    WebhookSettings& webhook = config.webhook;
    settings.any("webhook", "URL", "",
                 "URL of your backend, http or https://HOST:PORT/PATH. The backend receives "
                 "presence changes, logins, and messages for users who are away",
                 [&](auto& name, auto& text) { webhook.url = parse_hook_url(name, text); });
    settings.any("webhook-events", "LIST", "presence,login,login_refused,message_waiting",
                 "Kinds of events that the webhook receives",
                 [&](auto& name, auto& text) { webhook.events = parse_event_kinds(name, text); });
    settings.on_off("webhook-payload", config.webhook_payload,
                    "Whether message_waiting contains the payload of the message, up to 4 KiB");
    settings.any("webhook-secret-file", "FILE", "",
                 "File with the secret that signs requests to the webhook",
                 [&](auto&, auto& text) { webhook.secret_file = text; });
    settings.any("webhook-token-file", "FILE", "",
                 "File with the bearer token that the gateway sends to the webhook",
                 [&](auto&, auto& text) { webhook.token_file = text; });
    settings.any("webhook-ca-file", "FILE", "",
                 "PEM file with CAs that are trusted for the webhook; default: the system's CAs",
                 [&](auto&, auto& text) { webhook.ca_file = text; });
    settings.count("webhook-batch", webhook.batch, 1, 1000, "100",
                   "Maximum number of events in one request to the webhook");
    settings.duration(
        "webhook-timeout", webhook.timeout, second, 600 * second, "10s",
        "How long the webhook may take to answer; after that, the gateway repeats the request");
    settings.any("presence-feed", "on|off", "on, or off with data = none",
                 "Whether presence changes are kept for GET /api/v1/presence/changes",
                 [&](auto& name, auto& text) { config.presence_feed = parse_switch(name, text); });
    settings.size("event-log-bytes", config.event_log_bytes, 64 * 1024, most_bytes,
                  "256MiB on disk, 16MiB in memory",
                  "Maximum bytes of events that are kept for the webhook and the presence feed. "
                  "Beyond it, the oldest are deleted");
}

namespace {

/// On disk it depends on the room that there is, which the store knows.
void choose_event_log_bytes(Config& config) {
    constexpr std::size_t mib = 1024 * 1024;
    if (config.event_log_bytes == 0 && config.data.empty()) config.event_log_bytes = 16 * mib;
    if (config.max_data_bytes != 0 && config.event_log_bytes > config.max_data_bytes / 2)
        throw ConfigError(
            "event-log-bytes: more than half of max-data-bytes, which must also hold messages; "
            "choose a smaller size");
}

}  // namespace

void complete_events(Config& config) {
    choose_event_log_bytes(config);
    if (config.webhook.url) config.recorded_events |= config.webhook.events;
    if (config.keeps_presence()) config.recorded_events |= kinds_of(EventKind::presence);
}

/// A setting without effect is a mistake.
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
            "webhook-ca-file: there is no certificate to check; use --webhook with an https:// "
            "URL");
}

}  // namespace pulsegate
