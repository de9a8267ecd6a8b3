#include "loadgen/swarm/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace pulsegate::load {

namespace {

/// A buffer so small that the server soon can't send more to a slow reader.
constexpr int slow_reader_buffer = 4096;

/// The server's clock may be ahead of ours by this.
constexpr Duration clock_difference = std::chrono::milliseconds(500);

IdentitySettings identity_settings(const Assignment& assignment, const std::string& client_ids) {
    IdentitySettings settings = assignment.target.identity;
    settings.client_id = client_ids + "{n}";
    return settings;
}

bool is_tls(TransportKind kind) { return kind == TransportKind::tls || kind == TransportKind::wss; }
bool is_websocket(TransportKind kind) {
    return kind == TransportKind::ws || kind == TransportKind::wss;
}

}  // namespace

Profiles::Profiles(const Assignment& assignment)
    : client_ids_(fmt::format("loadgen-{:x}-", assignment.run)),
      identities_(identity_settings(assignment, client_ids_)) {
    const auto& groups = assignment.scenario.groups;
    if (std::ranges::any_of(groups, [](const Group& its) { return is_tls(its.transport); }))
        tls_ = std::make_unique<TlsContext>(
            assignment.target.insecure ? TlsContext::Verify::no : TlsContext::Verify::yes,
            assignment.target.ca_file);
    for (const Group& group : groups) profiles_.push_back(make(group, assignment));
}

ClientProfile Profiles::make(const Group& group, const Assignment& assignment) {
    ClientProfile profile;
    for (const ServerAddress& server : assignment.target.servers_of(group.transport)) {
        Endpoint endpoint;
        endpoint.address = resolve(server.host, server.port).front();
        endpoint.host = server.host;
        endpoint.port = server.port;
        if (!server.path.empty()) endpoint.path = server.path;
        profile.endpoints.push_back(std::move(endpoint));
    }
    const bool loopback = std::ranges::all_of(
        profile.endpoints, [](const Endpoint& endpoint) { return endpoint.address.loopback(); });
    if (loopback && assignment.sources > 0) profile.sources = loopback_sources(assignment.sources);

    profile.websocket = is_websocket(group.transport);
    profile.tls = is_tls(group.transport) ? tls_.get() : nullptr;
    profile.version = group.version;
    profile.keepalive = group.keepalive;
    profile.kept_session = group.kept_session;
    if (group.hostile == Hostile::slow_reader) profile.receive_buffer = slow_reader_buffer;
    profile.identities = &identities_;
    return profile;
}

std::string Profiles::presence_name(std::uint32_t number) const {
    const std::string user = identities_.user(number);
    return user.empty() ? identities_.client_id(number) : user;
}

std::optional<std::uint32_t> Profiles::number_of(std::string_view client_id) const {
    if (!client_id.starts_with(client_ids_)) return std::nullopt;
    const auto digits = client_id.substr(client_ids_.size());
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    return is_number ? std::optional(number) : std::nullopt;
}

bool Profiles::token_expired(std::uint32_t number, Time now) const {
    const Time ends = identities_.token_ends(number);
    return ends != Time::max() && now >= ends - clock_difference;
}

}  // namespace pulsegate::load
