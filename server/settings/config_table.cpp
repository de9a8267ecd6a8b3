// The table of settings, without those of backends and of the cluster.
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

/// Listeners, HTTP API, event loops and logs.
void add_general(Settings& settings, Config& config) {
    settings
        .each("listen", "URL", "",
              "Where to listen; repeatable. For clients: mqtt, mqtts, ws or wss://HOST:PORT, with "
              "?proxy-protocol if a proxy sends the PROXY protocol; ws and wss URLs may have a "
              "path (default: /mqtt). For the HTTP API: http or https://HOST:PORT. Without a URL "
              "for clients, mqtt://127.0.0.1:1883 is added; without one for the HTTP API, "
              "http://127.0.0.1:8080",
              config.listen, [](const std::string& url) { return parse_listen_url(url); })
        .shown = [&config] {
        std::vector<std::string> urls;
        urls.reserve(config.listen.size());
        for (const ListenUrl& url : config.listen) urls.push_back(url.text());
        return urls;
    };
    settings.any("admin-token-file", "FILE", "",
                 "File with the bearer token for the HTTP API; required unless the API listens on "
                 "loopback only",
                 [&](auto&, auto& text) { config.admin_token_file = text; });
    settings.any("admin-tokens-file", "FILE", "",
                 "File with more tokens, one NAME:ROLE:HASH per line; the roles are read, publish "
                 "and operate. `pulsegate token NAME ROLE` makes a token",
                 [&](auto&, auto& text) { config.admin_tokens_file = text; });
    settings.any("admin-socket", "FILE|none", "admin.sock in the data folder",
                 "Unix socket for `pulsegate ctl`. Only the gateway's user and root can use it, "
                 "and they need no token",
                 [&](auto&, auto& text) { config.admin_socket = text; });
    settings.count("shards", config.shards, 1, most_shards,
                   "one for each processor that the process may use",
                   "Number of event loops; each has its own thread");
    settings.any(
        "events", "FILE", "",
        "Append every presence change to this file, one JSON object per line; - is standard output",
        [&](auto&, auto& text) { config.events = text; });
    settings.any(
        "data", "DIR", "data",
        "Folder for all data that must survive a restart; none: a restart loses everything",
        [&](auto&, auto& text) { config.data = text; });
    settings.any(
        "fsync", "always|1s|never", "always",
        "When data is forced to the disk. always: before it is acknowledged. 1s: once a second, so "
        "a power cut can lose the last second. never: when the operating system decides",
        [&](auto& name, auto& text) { config.fsync = parse_fsync(name, text); });
    settings.size("max-data-bytes", config.max_data_bytes, 16 * 1024 * 1024, most_bytes,
                  "4/5 of the available disk space",
                  "Maximum disk space for data. Beyond it, queues stop growing, and the users with "
                  "the most waiting messages lose sessions");
    settings.flag("demo", config.demo,
                  "Serve a demo chat page at /chat on the HTTP API's address, and WebSockets on "
                  "ws://127.0.0.1:8083 unless a ws or wss listener is set");
    settings.any("log-level", "LEVEL", "info",
                 "Lowest level that is logged to standard error: debug, info, warn or error",
                 [&](auto& name, auto& text) { config.log_level = parse_level(name, text); });
    settings.any("log-format", "text|json", "text",
                 "Format of the log: text, or one JSON object per line",
                 [&](auto& name, auto& text) { config.log_format = parse_log_format(name, text); });
    settings.flag("log-logins", config.log_logins,
                  "Log each login, and the end of its connection, at level info");
}

/// For mqtts and wss listeners.
void add_tls(Settings& settings, Config& config) {
    settings.files("tls-cert", config.tls.certificates,
                   "PEM file with the certificate of mqtts, wss and https listeners and its chain; "
                   "repeatable: the client's SNI selects one");
    settings.files("tls-key", config.tls.keys,
                   "PEM file with the private key of the certificate; one for each --tls-cert");
    settings.any("tls-client-ca", "FILE", "",
                 "PEM file with CAs; clients must present a certificate that one of them signed",
                 [&](auto&, auto& text) { config.tls.client_ca = text; });
    settings.any(
        "tls-client-crl", "FILE", "",
        "PEM file with the revocation list (CRL) of the CA in --tls-client-ca; SIGHUP reads "
        "it again",
        [&](auto&, auto& text) { config.tls.client_crl = text; });
    settings.any("tls-min-version", "1.2|1.3", "1.2", "Oldest TLS version that is accepted",
                 [&](auto& name, auto& text) {
                     if (text != "1.2" && text != "1.3")
                         throw ConfigError(
                             fmt::format("{}: '{}' is unknown; choose 1.2 or 1.3", name, text));
                     config.tls.allow_1_2 = text == "1.2";
                 });
    settings.any("tls-idle", "small|openssl", "small",
                 "What is kept in memory for each TLS 1.3 client after its handshake. small: only "
                 "its keys, 200 bytes. openssl: OpenSSL's object, 14 KB",
                 [&](auto& name, auto& text) {
                     if (text != "openssl" && text != "small")
                         throw ConfigError(fmt::format(
                             "{}: '{}' is unknown; choose small or openssl", name, text));
                     config.tls.idle =
                         text == "small" ? TlsSession::Idle::small : TlsSession::Idle::openssl;
                 });
}

/// Adds the settings for logins and users.
void add_logins(Settings& settings, Config& config) {
    settings.flag("allow-anonymous", config.authenticator.allow_anonymous,
                  "Accept clients that send neither a username nor a password, also on listeners "
                  "that are reachable from outside");
    settings.files("jwt-secret", config.authenticator.jwt.secret_files,
                   "File with the secret of HS256 tokens, at least 32 bytes; repeatable. Clients "
                   "send a token as the password; the token's sub is the user");
    settings.files("jwt-key", config.authenticator.jwt.public_key_files,
                   "PEM file with the public key of RS256, ES256 or EdDSA tokens; repeatable");
    auto& keys = config.authenticator.key_server;
    settings.any("jwt-jwks-url", "URL", "",
                 "http or https URL where an identity provider publishes its public keys as a JWK "
                 "set; the kid of a token selects its key",
                 [&](auto& name, auto& text) { keys.url = parse_hook_url(name, text); });
    settings.duration("jwt-jwks-refresh", keys.refresh, second, 24 * 3600 * second, "5m",
                      "How often the keys of jwt-jwks-url are fetched");
    settings.duration("jwt-jwks-keep", keys.keep, 0, 30 * 24 * 3600 * second, "1h",
                      "How long a key remains valid after it has left the set of jwt-jwks-url");
    settings.any("jwt-jwks-ca", "FILE", "",
                 "PEM file with CAs that are trusted for jwt-jwks-url; default: the system's CAs",
                 [&](auto&, auto& text) { keys.ca_file = text; });
    settings.any("jwt-issuer", "TEXT", "", "Issuer (iss) that tokens must have",
                 [&](auto&, auto& text) { config.authenticator.jwt.issuer = text; });
    settings.any("jwt-audience", "TEXT", "", "Audience that the aud of tokens must contain",
                 [&](auto&, auto& text) { config.authenticator.jwt.audience = text; });
    settings.any("password-file", "FILE", "",
                 "File with users and hashed passwords, as written by mosquitto_passwd and "
                 "`pulsegate passwd`",
                 [&](auto&, auto& text) { config.authenticator.password_file = text; });
    auto& hook = config.authenticator.hook;
    settings.any("auth-hook", "URL", "",
                 "URL of your backend, http or https://HOST:PORT/PATH. The gateway asks it about "
                 "logins that neither a token nor the password file decides",
                 [&](auto& name, auto& text) { hook.url = parse_hook_url(name, text); });
    settings.duration(
        "auth-hook-timeout", hook.timeout, second, 60 * second, "3s",
        "How long the auth hook may take to answer; after that, the login is refused");
    settings.duration(
        "auth-hook-cache", hook.cache, 0, 3600 * second, "10s",
        "How long answers of the auth hook are cached; 0: the hook is asked about every login");
    settings.count("auth-hook-connections", hook.connections, 1, 1000, "16",
                   "Maximum number of connections to the auth hook");
    settings.any("auth-hook-ca", "FILE", "",
                 "PEM file with CAs that are trusted for the auth hook; default: the system's CAs",
                 [&](auto&, auto& text) { hook.ca_file = text; });
    settings.any("auth-hook-token-file", "FILE", "",
                 "File with the bearer token that the gateway sends to the auth hook",
                 [&](auto&, auto& text) { hook.token_file = text; });
    settings.any("access-file", "FILE", "",
                 "File with the rules that say which topics a user may publish and subscribe to; a "
                 "rule is: allow|deny read|write|readwrite [user NAME] FILTER",
                 [&](auto&, auto& text) { config.authenticator.access_file = text; });
    settings.any("user-from", "FIELD", "username",
                 "How the user of a client is determined. username: its username, or its client id "
                 "if it sends none. client-id: always its client id. certificate: the common name "
                 "of its certificate",
                 [&](auto& name, auto& text) { config.user_from = parse_user_from(name, text); });
}

/// Keepalives and timeouts.
void add_silence(Settings& settings, Config& config) {
    settings.duration(
        "idle-timeout", config.idle_timeout, second, longest_silence, "30s",
        "How long a client that sets no keepalive may be silent before it is offline");
    settings.flag(
        "strict-idle-timeout", config.strict_idle_timeout,
        "Apply idle-timeout to all clients, even to clients with a longer keepalive. MQTT "
        "5.0 clients are allowed at least 1.5 s");
    settings.any(
        "max-keepalive", "DURATION", "60s",
        "Longest keepalive of MQTT 5.0 clients. A client that asks for a longer one gets "
        "this value as its Server Keep Alive. Default: 60s, or idle-timeout / 1.5 if that is more",
        [&](auto& name, auto& text) {
            config.max_keepalive = static_cast<std::uint32_t>(
                parse_duration(name, text, second, 65'535 * second) / second);
        });
    settings.duration("login-timeout", config.login_timeout, second, longest_silence, "10s",
                      "How long a new connection may take until its CONNECT is answered");
    settings.each("websocket-origin", "ORIGIN", "",
                  "Origin of web pages that may open a WebSocket, https://HOST, or * for all; "
                  "repeatable. Default: pages from the same host as the gateway",
                  config.websocket_origin,
                  [](const std::string& origin) { return parse_origin(origin); });
    settings.duration("websocket-ping", config.websocket_ping, 0, longest_silence, "0s",
                      "How long a WebSocket may be idle before the gateway sends a ping, so that "
                      "proxies keep it open; 0s: no pings");
    settings.duration("forget-after", config.forget_after, second, longest_memory, "24h",
                      "How long the presence of an offline user is kept");
    settings.duration("stop-wait", config.stop_wait, 0, 60 * second, "3s",
                      "Maximum time that a stop waits while presence subscribers are told that all "
                      "users are offline");
    settings.duration("drain-notice", config.drain.notice, 0, longest_drain, "0s",
                      "How long /readyz answers 503 before a stop asks the first client to leave. "
                      "Load balancers need this time to notice");
    settings.duration(
        "drain-time", config.drain.over, 0, longest_drain, "0s",
        "Time over which a stop asks all clients to leave, at a steady rate. Users stay online if "
        "they are back in time. 0s: all clients leave at once, and all users go offline");
    settings.any(
        "server-reference", "HOST:PORT", "",
        "Server that a drained gateway tells its MQTT 5.0 clients to use (Server Reference)",
        [&](auto&, auto& text) { config.server_reference = text; });
}

/// Sessions, message queues and retained messages.
void add_sessions(Settings& settings, Config& config) {
    settings.duration("max-session-expiry", config.max_session_expiry, 0, longest_memory, "7d",
                      "Maximum time that the session of a disconnected client is kept. MQTT 3.1.1 "
                      "clients without clean session always get this time");
    settings.count("persistent-session-quota", config.persistent_session_quota, 1, 1'000'000'000,
                   "500000",
                   "Maximum number of sessions of disconnected clients. Beyond it, the session "
                   "that has been disconnected longest ends");
    settings.size("persistent-session-bytes", config.persistent_session_bytes, 1024 * 1024,
                  most_bytes, "1GiB, or half of memory-budget if that is less",
                  "Maximum memory for the sessions of disconnected clients and all message queues. "
                  "Beyond it, sessions of the user that holds the most end");
    settings.size("queue-memory", config.queue_memory, 0, most_bytes, "64MiB",
                  "Maximum memory for messages that are queued for stored sessions. Beyond it, the "
                  "oldest messages are only on disk until they are sent");
    settings.count(
        "max-queued-messages", config.max_queued_messages, 1, 1'000'000'000, "10000",
        "Maximum number of messages that are queued for one client. Beyond it, the oldest "
        "messages of the sender with the most messages in the queue are dropped");
    settings.size("max-queued-bytes", config.max_queued_bytes, 1024, most_bytes, "4MiB",
                  "Maximum bytes of messages that are queued for one client");

    settings.size("history-bytes", config.history_bytes, 0, most_bytes, "16MiB",
                  "Maximum memory for the latest events of each user: logins, refusals, ends of "
                  "connections, lost messages; 0: no events are kept");

    settings.on_off("retain-available", config.retain_available,
                    "Whether clients may publish retained messages");
    settings.count("max-retained-messages", config.max_retained_messages, 0, 1'000'000'000,
                   "1000000", "Maximum number of retained messages");
    settings.size("max-retained-bytes", config.max_retained_bytes, 0, most_bytes,
                  "256MiB, or a quarter of memory-budget if that is less",
                  "Maximum memory for retained messages");
    settings.count("max-retained-messages-per-user", config.max_retained_messages_per_user, 0,
                   1'000'000'000, "100000, or a tenth of max-retained-messages if that is less",
                   "Maximum number of retained messages of one user");
    settings.size("max-retained-bytes-per-user", config.max_retained_bytes_per_user, 0, most_bytes,
                  "32MiB, or a tenth of max-retained-bytes if that is less",
                  "Maximum memory for the retained messages of one user");

    settings.duration("inbox-expiry", config.inbox_expiry, 0, longest_memory, "7d",
                      "How long messages to inbox/USER wait for a user without a session, counted "
                      "from the latest message; 0s: they are not kept");
    settings.count("max-inboxes", config.max_inboxes, 0, 1'000'000'000, "100000",
                   "Maximum number of users without a session that have waiting messages");
    settings.count("max-inboxes-per-user", config.max_inboxes_per_user, 0, 1'000'000'000,
                   "1000, or a tenth of max-inboxes if that is less",
                   "Maximum number of inboxes in which messages of one sender wait; only inboxes "
                   "of users without a session count");
    settings.size("max-inbox-bytes-per-user", config.max_inbox_bytes_per_user, 0, most_bytes,
                  "32MiB",
                  "Maximum bytes of messages of one sender that wait for users without a session");
    settings.count("max-delayed-messages", config.max_delayed_messages, 0, 1'000'000'000,
                   "10000000", "Maximum number of delayed messages");
    settings.size("max-delayed-bytes", config.max_delayed_bytes, 0, most_bytes, "4GiB",
                  "Maximum disk space for delayed messages, or memory with data = none");
    settings.count("max-delayed-messages-per-user", config.max_delayed_messages_per_user, 0,
                   1'000'000'000, "100000, or a tenth of max-delayed-messages if that is less",
                   "Maximum number of delayed messages of one user");
    settings.size("max-delayed-bytes-per-user", config.max_delayed_bytes_per_user, 0, most_bytes,
                  "64MiB, or a tenth of max-delayed-bytes if that is less",
                  "Maximum space for the delayed messages of one user");
}

/// Packets, messages and topics of one client.
void add_traffic(Settings& settings, Config& config) {
    settings.size("max-packet-size", config.max_packet_size, 1024, 268'435'460, "256KiB",
                  "Largest packet that a client may send");
    settings.size("max-client-id-length", config.max_client_id_length, 23, 65'535, "1024",
                  "Longest client id, in bytes");
    settings.size("output-budget", config.output_budget, 16 * 1024, 1 << 30, "1MiB",
                  "Maximum bytes that wait to be sent to one client; a client that exceeds this is "
                  "disconnected");
    settings.count(
        "receive-maximum", config.receive_maximum, 1, 65'535, "256",
        "Maximum number of QoS 2 messages that one client has sent and not yet released");
    settings.count("max-inflight", config.max_inflight, 1, 5000, "256",
                   "Maximum number of unacknowledged QoS 1 and 2 messages to one client");
    settings.count("topic-alias-maximum", config.topic_alias_maximum, 0, 65'535, "16",
                   "Maximum number of topic aliases of one connection in each direction");
    settings.any("max-qos", "0|1|2", "2", "Highest QoS that clients may use",
                 [&](auto& name, auto& text) {
                     config.max_qos = static_cast<QoS>(parse_count(name, text, 0, 2));
                 });

    settings.on_off(
        "inbox", config.inbox,
        "Whether messages to inbox/USER go to all devices of the user, without a subscription");
    settings.any(
        "rooms", "open|members", "members if clients must log in",
        "Who may subscribe and publish to room/ROOM. open: everybody. members: only members of the "
        "room, which the HTTP API sets. With access-file or demo, the default is open",
        [&](auto& name, auto& text) {
            config.rooms_are_closed = parse_rooms(name, text);
            config.rooms_are_stated = true;
        });
    settings.any("presence-for", "everybody|watchers", "everybody",
                 "Who may subscribe to presence/USER: everybody, or only the user's watchers, "
                 "which the HTTP API sets",
                 [&](auto& name, auto& text) {
                     config.presence_is_for_watchers = parse_presence_for(name, text);
                 });
    settings.count("max-room-members", config.max_room_members, 0, 1'000'000'000, "10000000",
                   "Maximum number of members of all rooms plus watchers of all users");
    settings.any(
        "sender-property", "NAME", "from",
        "User property that names the sender in messages to inbox/... and room/...; an empty name: "
        "there is no such property",
        [&](auto& name, auto& text) { config.sender_property = parse_property_name(name, text); },
        Settings::Empty::has_a_meaning);
    settings.on_off("sender-in-topic", config.sender_in_topic,
                    "Whether MQTT 3.1.1 receivers get the sender as an additional topic level: "
                    "inbox/USER/SENDER");
    settings.count("max-subscriptions", config.max_subscriptions, 1, 8'000'000, "1000",
                   "Maximum number of subscriptions of one client");
    settings.size(
        "max-client-memory", config.max_client_memory, 64 * 1024, 15 << 20, "4MiB",
        "Maximum memory for the subscriptions, the will and the topic aliases of one client");
    settings.size(
        "max-user-memory", config.max_user_memory, 64 * 1024, 1 << 30,
        "32MiB, or a tenth of memory-budget if that is less",
        "Maximum memory for the subscriptions, wills and topic aliases of all clients of one user");
    settings.on_off("wildcard-subscriptions", config.wildcard_subscriptions,
                    "Whether topic filters may have wildcards");
    settings.on_off("shared-subscriptions", config.shared_subscriptions,
                    "Whether clients may use shared subscriptions: $share/GROUP/FILTER");
    settings.size("max-topic-length", config.max_topic_length, 1, 65'535, "65535",
                  "Longest topic or topic filter, in bytes");
    settings.count("max-topic-levels", config.max_topic_levels, 1, 1000, "128",
                   "Maximum number of levels of a topic filter");
}

/// Limits and bans.
void add_limits(Settings& settings, Config& config) {
    settings.count("max-connections", config.admission.max_connections, 0, 100'000'000,
                   "what the file limit allows",
                   "Maximum number of connections; further ones are refused with server busy; 0: "
                   "what the file limit allows");
    settings.size(
        "memory-budget", config.admission.memory_budget, 1024 * 1024, most_bytes,
        "3/4 of the available memory",
        "Memory budget of the process; beyond it, new connections are refused with server busy");
    settings.count(
        "max-connections-per-address", config.address_limits.max_connections_per_address, 0,
        100'000'000, "10000",
        "Maximum number of connections from one IPv4 address or IPv6 /64 network; 0: no limit");
    settings.count("max-connections-per-user", config.max_connections_per_user, 0, 100'000'000,
                   "100", "Maximum number of connected clients of one user; 0: no limit");
    settings.count("login-rate", config.admission.login_rate, 0, 10'000'000, "5000",
                   "Maximum number of logins per second; further logins wait, and addresses take "
                   "turns; 0: no limit");
    settings.duration(
        "login-wait", config.login_wait, 0, 60 * second, "5s",
        "How long a login may wait for its turn; after that, it is refused with server busy");
    settings.duration("max-loop-lag", config.max_loop_lag, 1, 60 * second, "100ms",
                      "Logins wait while an event loop is late by more than this");
    settings.count(
        "max-message-rate", config.max_message_rate, 0, 100'000'000, "10000",
        "Maximum number of packets per second from one client, not counting acknowledgements. The "
        "gateway reads more slowly from faster clients; 0: no limit");
    settings.size("max-byte-rate", config.max_byte_rate, 0, most_bytes, "10MiB",
                  "Maximum bytes per second from one client. The gateway reads more slowly from "
                  "faster clients; 0: no limit");
    settings.size("total-output-budget", config.total_output_budget, 1024 * 1024, most_bytes,
                  "256MiB",
                  "Maximum bytes that wait to be sent to all clients together; one client can use "
                  "only what the others leave");
    settings.count("ban-failures", config.address_limits.ban_failures, 0, 1'000'000, "100",
                   "Number of different wrong passwords within a minute after which their address "
                   "is banned; 0: no bans");
    settings.count(
        "ban-flaps", config.client_limits.ban_flaps, 0, 1'000'000, "30",
        "A client is banned after this many connections within a minute that break or that the "
        "gateway closes, or after ten times as many that end with DISCONNECT; 0: no bans");
    settings.count("duel-takeovers", config.client_limits.duel_takeovers, 0, 1'000'000, "5",
                   "Number of takeovers of a client within a minute after which further takeovers "
                   "are delayed; 0: no delay");
    settings.duration("ban-time", config.address_limits.ban_time, second, longest_memory, "5m",
                      "How long a ban lasts");
}

/// A reload applies changes of these. All others need a restart: connected clients rely on what
/// their CONNACK said of them, or have rights by them; or threads, listeners and files depend on
/// them.
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
    settings.begin("Webhook and presence feed");
    add_events(settings, config);
    settings.begin("Cluster");
    add_cluster(settings, config);
    for (const char* name : live_settings) settings.find(name)->is_live = true;
    // Without any of them no client is asked for a token, which others rely on.
    for (const char* name : {"jwt-secret", "jwt-key"})
        settings.find(name)->is_live_while_set = true;
}

}  // namespace pulsegate
