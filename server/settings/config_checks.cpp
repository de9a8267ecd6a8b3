// Derives values from several settings together, and finds settings that don't fit.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "server/settings/config_options.h"

namespace pulsegate {

namespace {

bool has_tls_listener(const Config& config) {
    return std::ranges::any_of(config.listen, &ListenUrl::has_tls);
}

/// A setting without effect is a mistake, because the operator thinks that it protects something.
void check_tls(const Config& config) {
    const Tls::Settings& tls = config.tls;
    if (!tls.client_crl.empty() && tls.client_ca.empty())
        throw ConfigError(
            "tls-client-crl: the gateway does not ask clients for certificates; name a "
            "--tls-client-ca as well");
    const char* unused = tls.allow_1_2 ? nullptr : "tls-min-version";
    if (!tls.certificates.empty()) unused = "tls-cert";
    if (!tls.keys.empty()) unused = "tls-key";
    if (!tls.client_ca.empty()) unused = "tls-client-ca";
    if (unused && !has_tls_listener(config))
        throw ConfigError(fmt::format(
            "{}: no listener has TLS; name one with --listen mqtts://0.0.0.0:8883", unused));
}

void check_certificates(const Config& config) {
    const Tls::Settings& tls = config.tls;
    const auto needs = std::ranges::find_if(config.listen, &ListenUrl::has_tls);
    if (needs == config.listen.end()) return;
    if (tls.certificates.empty())
        throw ConfigError(
            fmt::format("listen: {}: TLS needs a certificate; name one with --tls-cert, and its "
                        "key with --tls-key",
                        needs->text()));
    if (tls.certificates.size() != tls.keys.size())
        throw ConfigError(
            fmt::format("tls-cert: there are {} certificates and {} keys; name one --tls-key for "
                        "each certificate, in the same order",
                        tls.certificates.size(), tls.keys.size()));
}

/// Where anybody may log in under any name, members mean nothing; where there are rules, these say
/// who may read what.
bool closes_rooms(const Config& config) {
    const AuthenticatorSettings& by = config.authenticator;
    const bool knows_users = by.has_users() || config.user_from == UserFrom::certificate;
    return knows_users && by.access_file.empty() && !config.demo;
}

void check_packets(const Config& config) {
    if (config.output_budget < config.max_packet_size)
        throw ConfigError(fmt::format(
            "output-budget: {} bytes are less than max-packet-size ({}), and a packet must "
            "fit; raise output-budget, or lower max-packet-size",
            config.output_budget, config.max_packet_size));
}

void check_sender(const Config& config) {
    if (config.sender_in_topic && config.sender_property.empty())
        throw ConfigError(
            "sender-in-topic: receivers do not get the sender, because the sender-property is "
            "empty; name a --sender-property as well");
}

void check_users(const Config& config) {
    if (config.user_from == UserFrom::certificate && config.tls.client_ca.empty())
        throw ConfigError(
            "user-from: the gateway does not ask clients for certificates; name a --tls-client-ca "
            "as well");
}

void check_tokens(const Config& config) {
    const JwtSettings& jwt = config.authenticator.jwt;
    const KeyServerSettings& keys = config.authenticator.key_server;
    if (!keys.ca_file.empty() && !(keys.url && keys.url->tls))
        throw ConfigError(
            "jwt-jwks-ca: there is no certificate to check; use --jwt-jwks-url with an https:// "
            "URL");
    if (config.authenticator.has_keys()) return;
    const char* unused = jwt.issuer.empty() ? nullptr : "jwt-issuer";
    if (!jwt.audience.empty()) unused = "jwt-audience";
    if (unused)
        throw ConfigError(
            fmt::format("{}: there is no key to check tokens with; name one with --jwt-key, "
                        "--jwt-secret or --jwt-jwks-url",
                        unused));
}

void check_hook(const Config& config) {
    const auto& hook = config.authenticator.hook;
    if (!hook.token_file.empty() && !hook.url)
        throw ConfigError(
            "auth-hook-token-file: there is no auth hook; name its URL with --auth-hook");
    if (!hook.ca_file.empty() && !(hook.url && hook.url->tls))
        throw ConfigError(
            "auth-hook-ca: there is no certificate to check; use --auth-hook with an https:// URL");
}

/// A kind of listener that is not named keeps its default.
void complete_listeners(Config& config) {
    const auto listens = [&](bool for_clients) {
        return std::ranges::any_of(
            config.listen, [&](const ListenUrl& url) { return url.for_clients() == for_clients; });
    };
    if (!listens(true)) config.listen.push_back({ListenUrl::Scheme::mqtt, "127.0.0.1", 1883});
    if (!listens(false)) config.listen.push_back({ListenUrl::Scheme::http, "127.0.0.1", 8080});
    if (config.demo && std::ranges::none_of(config.listen, &ListenUrl::is_websocket))
        config.listen.push_back({ListenUrl::Scheme::ws, "127.0.0.1", 8083, "/mqtt"});
}

}  // namespace

void complete(Config& config, const Attempt& attempt) {
    if (!config.rooms_are_stated) config.rooms_are_closed = closes_rooms(config);
    config.client_limits.ban_time = config.address_limits.ban_time;
    config.authenticator.user_by_certificate = config.user_from == UserFrom::certificate;
    attempt([&] { check_packets(config); });
    attempt([&] { check_sender(config); });
    attempt([&] { check_users(config); });
    attempt([&] { check_tokens(config); });
    attempt([&] { complete_cluster(config); });
    complete_shares(config);
    attempt([&] { check_tls(config); });
    attempt([&] { check_certificates(config); });
    attempt([&] { check_events(config); });
    attempt([&] { complete_events(config); });
    attempt([&] { check_hook(config); });
    complete_listeners(config);
}

}  // namespace pulsegate
