// The table of settings, but for those of backends and of the cluster.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "server/settings/config_options.h"
#include "server/settings/config_values.h"

namespace pulsegate {

namespace {

/// The longest silence that a keepalive can allow: one and a half times 65,535 s.
constexpr Millis longest_silence = 98'303 * second;

/// Longer than a day is taken for a typing error.
constexpr Millis longest_drain = 86'400 * second;

/// Listeners, admin API, event loops and logs.
void add_general(Settings& settings, Config& config) {
    settings
        .each(
            "listen", "URL", "",
            "Where to listen, repeatable: mqtt, mqtts, ws or wss://HOST:PORT for clients, "
            "http or https://HOST:PORT for the admin API; ws and wss take a /path (/mqtt), all but "
            "http and https take ?proxy-protocol. A kind that is not named keeps its default: "
            "mqtt://127.0.0.1:1883, http://127.0.0.1:8080",
            config.listen, [](const std::string& url) { return parse_listen_url(url); })
        .shown = [&config] {
        std::vector<std::string> urls;
        urls.reserve(config.listen.size());
        for (const ListenUrl& url : config.listen) urls.push_back(url.text());
        return urls;
    };
    settings.any("admin-token-file", "FILE", "",
                 "File with the bearer token for the admin API; required unless the API listens on "
                 "loopback only",
                 [&](auto&, auto& text) { config.admin_token_file = text; });
    settings.any(
        "admin-tokens-file", "FILE", "",
        "File with further tokens, a line NAME:ROLE:HASH each, with the role read, publish "
        "or operate; pulsegate token NAME ROLE makes one",
        [&](auto&, auto& text) { config.admin_tokens_file = text; });
    settings.any("admin-socket", "FILE|none", "admin.sock in the data folder",
                 "Unix socket for `pulsegate ctl`, which needs no token there: only the gateway's "
                 "user and root may use it",
                 [&](auto&, auto& text) { config.admin_socket = text; });
    settings.count("shards", config.shards, 1, most_shards, "one per core",
                   "Event loops, each with a thread of its own");
    settings.any(
        "events", "FILE", "",
        "Append every presence change to this file as a line of JSON; - is standard output",
        [&](auto&, auto& text) { config.events = text; });
    settings.any("data", "DIR", "data",
                 "Folder for all that outlives the process; none: a restart forgets everything",
                 [&](auto&, auto& text) { config.data = text; });
    settings.any(
        "fsync", "always|1s|never", "always",
        "When what is stored is forced to the disk: always before it is acknowledged; once "
        "a second, and a power cut may take that second; or when the system likes",
        [&](auto& name, auto& text) { config.fsync = parse_fsync(name, text); });
    settings.size("max-data-bytes", config.max_data_bytes, 16 * 1024 * 1024, most_bytes,
                  "4/5 of what the disk has",
                  "How much of the disk is used; beyond it queues grow no more, and the sessions "
                  "for which most waits end");
    settings.flag("demo", config.demo,
                  "Serve a page to chat with, /chat, at the admin API's address, and WebSockets on "
                  "ws://127.0.0.1:8083 unless a ws or wss listener is named");
    settings.any("log-level", "LEVEL", "info",
                 "What to log to standard error: debug, info, warn or error",
                 [&](auto& name, auto& text) { config.log_level = parse_level(name, text); });
    settings.any("log-format", "text|json", "text",
                 "How the lines of the log are written: as text, or each as an object of JSON",
                 [&](auto& name, auto& text) { config.log_format = parse_log_format(name, text); });
    settings.flag("log-logins", config.log_logins,
                  "Log each login, and the end of its connection, at the level info");
}

/// For mqtts and wss listeners.
void add_tls(Settings& settings, Config& config) {
    settings.files("tls-cert", config.tls.certificates,
                   "Certificate of mqtts and wss listeners with its chain, PEM; repeatable: the "
                   "client's SNI selects one");
    settings.files("tls-key", config.tls.keys,
                   "Private key of the certificate, PEM; one for each --tls-cert");
    settings.any("tls-client-ca", "FILE", "",
                 "Clients must show a certificate that one of these CAs signed, PEM",
                 [&](auto&, auto& text) { config.tls.client_ca = text; });
    settings.any("tls-client-crl", "FILE", "",
                 "Certificates that the --tls-client-ca has revoked, PEM; SIGHUP reads them again",
                 [&](auto&, auto& text) { config.tls.client_crl = text; });
    settings.any("tls-min-version", "1.2|1.3", "1.2", "The oldest TLS version that is accepted",
                 [&](auto& name, auto& text) {
                     if (text != "1.2" && text != "1.3")
                         throw ConfigError(
                             fmt::format("{}: '{}' is unknown; choose 1.2 or 1.3", name, text));
                     config.tls.allow_1_2 = text == "1.2";
                 });
    settings.any(
        "tls-idle", "small|openssl", "small",
        "What is kept of a TLS 1.3 client after its handshake: its keys, 200 bytes; or OpenSSL's "
        "object, 14 KB",
        [&](auto& name, auto& text) {
            if (text != "openssl" && text != "small")
                throw ConfigError(
                    fmt::format("{}: '{}' is unknown; choose small or openssl", name, text));
            config.tls.idle = text == "small" ? TlsSession::Idle::small : TlsSession::Idle::openssl;
        });
}

/// Who may log in, as which user.
void add_logins(Settings& settings, Config& config) {
    settings.flag(
        "allow-anonymous", config.authenticator.allow_anonymous,
        "Accept clients without a username, also on listeners that are reachable from outside");
    settings.files("jwt-secret", config.authenticator.jwt.secret_files,
                   "File with the secret of HS256 tokens, 32 bytes or more; repeatable. A client "
                   "sends its token as the password; the token's sub is the user");
    settings.files("jwt-key", config.authenticator.jwt.public_key_files,
                   "File with the public key of RS256, ES256 or EdDSA tokens, PEM; repeatable");
    auto& keys = config.authenticator.key_server;
    settings.any("jwt-jwks-url", "URL", "",
                 "Where an identity provider publishes its public keys as a JWK set, http or "
                 "https; a token's kid chooses among them",
                 [&](auto& name, auto& text) { keys.url = parse_hook_url(name, text); });
    settings.duration("jwt-jwks-refresh", keys.refresh, second, 24 * 3600 * second, "5m",
                      "How often the keys of jwt-jwks-url are fetched");
    settings.duration("jwt-jwks-keep", keys.keep, 0, 30 * 24 * 3600 * second, "1h",
                      "How long a key stays good that has left the set of jwt-jwks-url");
    settings.any("jwt-jwks-ca", "FILE", "",
                 "CAs that may have signed the certificate of jwt-jwks-url, PEM; default: the "
                 "system's CAs",
                 [&](auto&, auto& text) { keys.ca_file = text; });
    settings.any("jwt-issuer", "TEXT", "", "The iss that tokens must have",
                 [&](auto&, auto& text) { config.authenticator.jwt.issuer = text; });
    settings.any("jwt-audience", "TEXT", "", "The audience that must be in the aud of tokens",
                 [&](auto&, auto& text) { config.authenticator.jwt.audience = text; });
    settings.any(
        "password-file", "FILE", "",
        "Users and hashed passwords, as mosquitto_passwd and `pulsegate passwd` write them",
        [&](auto&, auto& text) { config.authenticator.password_file = text; });
    auto& hook = config.authenticator.hook;
    settings.any("auth-hook", "URL", "",
                 "Your backend, http or https://HOST:PORT/PATH: it is asked about logins that "
                 "neither a token nor the password file decides",
                 [&](auto& name, auto& text) { hook.url = parse_hook_url(name, text); });
    settings.duration("auth-hook-timeout", hook.timeout, second, 60 * second, "3s",
                      "How long the auth hook's answer may take; then the login is refused");
    settings.duration("auth-hook-cache", hook.cache, 0, 3600 * second, "10s",
                      "How long an answer of the auth hook is cached; 0: every login is a request");
    settings.count("auth-hook-connections", hook.connections, 1, 1000, "16",
                   "Connections to the auth hook, at most");
    settings.any(
        "auth-hook-ca", "FILE", "",
        "CAs that may have signed the auth hook's certificate, PEM; default: the system's CAs",
        [&](auto&, auto& text) { hook.ca_file = text; });
    settings.any("auth-hook-token-file", "FILE", "",
                 "File with the bearer token that is sent to the auth hook",
                 [&](auto&, auto& text) { hook.token_file = text; });
    settings.any("access-file", "FILE", "",
                 "File with the rules who may publish and subscribe to what; a rule is: allow|deny "
                 "read|write|readwrite [user NAME] FILTER",
                 [&](auto&, auto& text) { config.authenticator.access_file = text; });
    settings.any("user-from", "FIELD", "username",
                 "What names the user of a client: its username (its client-id if it sends none), "
                 "always its client-id, or the common name of its certificate",
                 [&](auto& name, auto& text) { config.user_from = parse_user_from(name, text); });
}

/// Keepalives and timeouts.
void add_silence(Settings& settings, Config& config) {
    settings.duration("idle-timeout", config.idle_timeout, second, longest_silence, "30s",
                      "The silence after which a client is offline, if it states no keepalive");
    settings.flag("strict-idle-timeout", config.strict_idle_timeout,
                  "Hold all clients to the idle timeout, even if they state a longer keepalive");
    settings.any("max-keepalive", "DURATION", "60s",
                 "The longest keepalive of MQTT 5.0 clients, at least idle-timeout / 1.5 unless it "
                 "is set; a client that states more gets this as its Server Keep Alive",
                 [&](auto& name, auto& text) {
                     config.max_keepalive = static_cast<std::uint32_t>(
                         parse_duration(name, text, second, 65'535 * second) / second);
                 });
    settings.duration("login-timeout", config.login_timeout, second, longest_silence, "10s",
                      "How long a new connection may take to send its CONNECT");
    settings.each("websocket-origin", "ORIGIN", "",
                  "Web pages that may open a WebSocket, repeatable: https://HOST, or * for all; "
                  "default: pages of the same host as the gateway's",
                  config.websocket_origin,
                  [](const std::string& origin) { return parse_origin(origin); });
    settings.duration("websocket-ping", config.websocket_ping, 0, longest_silence, "0s",
                      "How long a WebSocket may be idle before the gateway sends a ping, so that "
                      "proxies keep it open; 0s: no pings");
    settings.duration("forget-after", config.forget_after, second, longest_memory, "24h",
                      "How long the presence of an offline user is kept");
    settings.duration("stop-wait", config.stop_wait, 0, 60 * second, "3s",
                      "How long a stop waits, at most, for those who subscribe to presence to hear "
                      "that everybody is offline");
    settings.duration(
        "drain-notice", config.drain.notice, 0, longest_drain, "0s",
        "How long a stop waits, while /readyz is 503, before it asks the first client "
        "to leave: the time in which a load balancer notices");
    settings.duration("drain-time", config.drain.over, 0, longest_drain, "0s",
                      "How long a stop takes to ask all clients to leave, as many in each second; "
                      "their users stay online if they are back in time. 0s: all at once, and all "
                      "users are offline");
    settings.any("server-reference", "HOST:PORT", "",
                 "Where a drained gateway sends its MQTT 5.0 clients (Server Reference)",
                 [&](auto&, auto& text) { config.server_reference = text; });
}

/// Sessions, message queues and retained messages.
void add_sessions(Settings& settings, Config& config) {
    settings.duration("max-session-expiry", config.max_session_expiry, 0, longest_memory, "7d",
                      "How long the session of a disconnected client is kept, at most; MQTT 3.1.1 "
                      "clients without clean session get all of it");
    settings.count("persistent-session-quota", config.persistent_session_quota, 1, 1'000'000'000,
                   "500000",
                   "How many sessions of disconnected clients are kept; beyond it the session that "
                   "has been disconnected longest ends");
    settings.size("persistent-session-bytes", config.persistent_session_bytes, 1024 * 1024,
                  most_bytes, "1GiB, or half of memory-budget if that is less",
                  "How much memory these sessions take, with all queues; beyond it the session "
                  "that has been disconnected longest ends");
    settings.size("queue-memory", config.queue_memory, 0, most_bytes, "64MiB",
                  "How much memory the messages take that are queued for sessions in the store; "
                  "beyond it the oldest are left on disk until they are sent");
    settings.count("max-queued-messages", config.max_queued_messages, 1, 1'000'000'000, "10000",
                   "How many messages are queued for one client; beyond it the oldest are dropped");
    settings.size("max-queued-bytes", config.max_queued_bytes, 1024, most_bytes, "4MiB",
                  "How many bytes of messages are queued for one client");

    settings.size("history-bytes", config.history_bytes, 0, most_bytes, "16MiB",
                  "How much memory has what happened last to each user: logins, refusals, ends of "
                  "connections, lost messages; 0 keeps nothing");

    settings.on_off("retain-available", config.retain_available,
                    "Whether clients may publish retained messages");
    settings.count("max-retained-messages", config.max_retained_messages, 0, 1'000'000'000,
                   "1000000", "How many retained messages are kept");
    settings.size("max-retained-bytes", config.max_retained_bytes, 0, most_bytes,
                  "256MiB, or a quarter of memory-budget if that is less",
                  "How much memory retained messages take");
    settings.count("max-retained-messages-per-user", config.max_retained_messages_per_user, 0,
                   1'000'000'000, "100000, or a tenth of all if that is less",
                   "How many of them may be one user's");
    settings.size("max-retained-bytes-per-user", config.max_retained_bytes_per_user, 0, most_bytes,
                  "32MiB, or a tenth of all if that is less",
                  "How much memory those of one user take");

    settings.duration("inbox-expiry", config.inbox_expiry, 0, longest_memory, "7d",
                      "How long messages to inbox/{user} wait for a user without a session, after "
                      "the last one; 0s: they don't");
    settings.count("max-inboxes", config.max_inboxes, 0, 1'000'000'000, "100000",
                   "Of how many such users");
    settings.count("max-inboxes-per-user", config.max_inboxes_per_user, 0, 1'000'000'000,
                   "1000, or a tenth of all if that is less",
                   "In how many of them one user may have messages");
    settings.size("max-inbox-bytes-per-user", config.max_inbox_bytes_per_user, 0, most_bytes,
                  "32MiB", "How many bytes of messages one user may have in them");
    settings.count("max-delayed-messages", config.max_delayed_messages, 0, 1'000'000'000,
                   "10000000", "How many messages wait to be published later");
    settings.size("max-delayed-bytes", config.max_delayed_bytes, 0, most_bytes, "4GiB",
                  "How much room they take on disk, or in memory without a folder for data");
    settings.count("max-delayed-messages-per-user", config.max_delayed_messages_per_user, 0,
                   1'000'000'000, "100000, or a tenth of all if that is less",
                   "How many of them may be one user's");
    settings.size("max-delayed-bytes-per-user", config.max_delayed_bytes_per_user, 0, most_bytes,
                  "64MiB, or a tenth of all if that is less",
                  "How much room those of one user take");
}

/// Packets, messages and topics of one client.
void add_traffic(Settings& settings, Config& config) {
    settings.size("max-packet-size", config.max_packet_size, 1024, 268'435'460, "256KiB",
                  "The largest packet that a client may send");
    settings.size("max-client-id-length", config.max_client_id_length, 23, 65'535, "1024",
                  "The longest client id, in bytes");
    settings.size(
        "output-budget", config.output_budget, 16 * 1024, 1 << 30, "1MiB",
        "Bytes that may wait to be sent to one client; a client that exceeds it is disconnected");
    settings.count("receive-maximum", config.receive_maximum, 1, 65'535, "256",
                   "QoS 2 messages that one client may leave unreleased, at most");
    settings.count("max-inflight", config.max_inflight, 1, 5000, "256",
                   "Unacknowledged QoS 1 and 2 messages to one client, at most");
    settings.count("topic-alias-maximum", config.topic_alias_maximum, 0, 65'535, "16",
                   "Topic aliases of one connection in each direction, at most");
    settings.any("max-qos", "0|1|2", "2", "The highest QoS that clients may use",
                 [&](auto& name, auto& text) {
                     config.max_qos = static_cast<QoS>(parse_count(name, text, 0, 2));
                 });

    settings.on_off(
        "inbox", config.inbox,
        "Whether messages to inbox/USER go to all devices of the user, without a subscription");
    settings.any("rooms", "open|members", "members if clients must log in",
                 "Who may read and publish to room/ROOM: everybody, or only its members, which "
                 "the HTTP API names. With an access-file or --demo everybody, unless it is set",
                 [&](auto& name, auto& text) {
                     config.rooms_are_closed = parse_rooms(name, text);
                     config.rooms_are_stated = true;
                 });
    settings.any("presence-for", "everybody|watchers", "everybody",
                 "Who may subscribe to presence/USER: everybody, or only the user's watchers, "
                 "which the HTTP API names",
                 [&](auto& name, auto& text) {
                     config.presence_is_for_watchers = parse_presence_for(name, text);
                 });
    settings.count("max-room-members", config.max_room_members, 0, 1'000'000'000, "10000000",
                   "Members of all rooms and watchers of all users, at most");
    settings.any(
        "sender-property", "NAME", "from",
        "The user property that tells receivers of messages to inbox/... and room/... who "
        "has sent them; an empty name: they are not told",
        [&](auto& name, auto& text) { config.sender_property = parse_property_name(name, text); },
        Settings::Empty::has_a_meaning);
    settings.on_off("sender-in-topic", config.sender_in_topic,
                    "Whether MQTT 3.1.1 receivers are told it as well, by a further level of the "
                    "topic: inbox/USER/SENDER");
    settings.count("max-subscriptions", config.max_subscriptions, 1, 8'000'000, "1000",
                   "Subscriptions of one client, at most");
    settings.size(
        "max-client-memory", config.max_client_memory, 64 * 1024, 15 << 20, "4MiB",
        "Memory that the subscriptions, the will and the topic aliases of one client take");
    settings.size("max-user-memory", config.max_user_memory, 64 * 1024, 1 << 30,
                  "32MiB, or a tenth of memory-budget if that is less",
                  "Memory that they take for all clients of one user");
    settings.on_off("wildcard-subscriptions", config.wildcard_subscriptions,
                    "Whether topic filters may have wildcards");
    settings.on_off("shared-subscriptions", config.shared_subscriptions,
                    "Whether clients may use shared subscriptions: $share/GROUP/FILTER");
    settings.size("max-topic-length", config.max_topic_length, 1, 65'535, "65535",
                  "The longest topic or topic filter, in bytes");
    settings.count("max-topic-levels", config.max_topic_levels, 1, 1000, "128",
                   "Levels of a topic filter, at most");
}

/// Limits and bans.
void add_limits(Settings& settings, Config& config) {
    settings.count("max-connections", config.admission.max_connections, 0, 100'000'000,
                   "what the file limit allows",
                   "Connections, at most; further ones are refused with server busy");
    settings.size(
        "memory-budget", config.admission.memory_budget, 1024 * 1024, most_bytes,
        "3/4 of what there is",
        "The memory of the process; beyond it new connections are refused with server busy");
    settings.count(
        "max-connections-per-address", config.address_limits.max_connections_per_address, 0,
        100'000'000, "10000",
        "Connections of one IPv4 address, or IPv6 network of 64 bits, at most; 0: any number");
    settings.count("max-connections-per-user", config.max_connections_per_user, 0, 100'000'000,
                   "100", "Connected clients of one user, at most; 0: any number");
    settings.count("login-rate", config.admission.login_rate, 0, 10'000'000, "5000",
                   "Logins a second; further ones wait, and addresses take turns; 0: any number");
    settings.duration("login-wait", config.login_wait, 0, 60 * second, "5s",
                      "How long a login waits for its turn; then it is refused with server busy");
    settings.duration("max-loop-lag", config.max_loop_lag, 1, 60 * second, "100ms",
                      "Logins wait while an event loop lags by more than this");
    settings.count("max-message-rate", config.max_message_rate, 0, 100'000'000, "10000",
                   "Packets a second of one client, without acknowledgements; a faster client is "
                   "read more slowly; 0: any number");
    settings.size(
        "max-byte-rate", config.max_byte_rate, 0, most_bytes, "10MiB",
        "Bytes a second of one client; a faster client is read more slowly; 0: any number");
    settings.size(
        "total-output-budget", config.total_output_budget, 1024 * 1024, most_bytes, "256MiB",
        "Bytes that may wait to be sent to all clients; one client may use no more than is left");
    settings.count("ban-failures", config.address_limits.ban_failures, 0, 1'000'000, "100",
                   "Different wrong passwords within a minute that ban their address; 0: no bans");
    settings.count("ban-flaps", config.client_limits.ban_flaps, 0, 1'000'000, "30",
                   "Connections of a client within a minute that break, or are closed by the "
                   "gateway, and ban the client, as do ten times as many that end with "
                   "DISCONNECT; 0: no bans");
    settings.count(
        "duel-takeovers", config.client_limits.duel_takeovers, 0, 1'000'000, "5",
        "Takeovers of a client within a minute after which further ones are delayed; 0: never");
    settings.duration("ban-time", config.address_limits.ban_time, second, longest_memory, "5m",
                      "How long a ban lasts");
}

/// A reload applies changes of these. All others need a restart: clients have been told of them, or
/// have rights by them; or threads, listeners and files depend on them.
constexpr const char* live_settings[] = {
    "log-level", "log-format", "log-logins", "stop-wait", "admin-token-file", "admin-tokens-file",
    // TLS
    "tls-cert", "tls-key", "tls-client-crl", "tls-min-version", "tls-idle",
    // logins
    "auth-hook-timeout", "auth-hook-cache", "auth-hook-connections", "jwt-jwks-refresh",
    "jwt-jwks-keep",
    // silence
    "idle-timeout", "strict-idle-timeout", "max-keepalive", "login-timeout", "websocket-ping",
    "forget-after",
    // sessions and retained messages
    "max-session-expiry", "persistent-session-quota", "persistent-session-bytes", "queue-memory",
    "max-queued-messages", "max-queued-bytes", "max-retained-messages", "max-retained-bytes",
    "max-retained-messages-per-user", "max-retained-bytes-per-user", "inbox-expiry", "max-inboxes",
    "max-inboxes-per-user", "max-inbox-bytes-per-user",
    // messages and topics
    "max-client-id-length", "output-budget", "max-room-members", "max-subscriptions",
    "max-client-memory", "max-user-memory", "max-topic-levels",
    // drain
    "drain-notice", "drain-time", "server-reference",
    // limits
    "max-connections", "memory-budget", "max-connections-per-address", "max-connections-per-user",
    "login-rate", "login-wait", "max-loop-lag", "max-message-rate", "max-byte-rate",
    "total-output-budget", "ban-failures", "ban-flaps", "duel-takeovers", "ban-time",
    // backends
    "webhook-timeout", "webhook-payload"};

}  // namespace

void add_settings(Settings& settings, Config& config) {
    settings.begin("Serving");
    add_general(settings, config);
    settings.begin("TLS");
    add_tls(settings, config);
    settings.begin("Logins");
    add_logins(settings, config);
    settings.begin("Silence");
    add_silence(settings, config);
    settings.begin("Sessions and retained messages");
    add_sessions(settings, config);
    settings.begin("Messages and topics");
    add_traffic(settings, config);
    settings.begin("Limits");
    add_limits(settings, config);
    settings.begin("What backends are told");
    add_events(settings, config);
    settings.begin("Cluster");
    add_cluster(settings, config);
    for (const char* name : live_settings) settings.find(name)->is_live = true;
    // Without any of them no client is asked for a token, which others rely on.
    for (const char* name : {"jwt-secret", "jwt-key"})
        settings.find(name)->is_live_while_set = true;
}

}  // namespace pulsegate
