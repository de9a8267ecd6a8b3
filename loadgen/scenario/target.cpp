#include "loadgen/scenario/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

struct Scheme {
    std::string_view beginning;
    TransportKind transport;
    std::uint16_t port;
};

constexpr std::array<Scheme, 6> schemes{{{"mqtt://", TransportKind::tcp, 1883},
                                         {"tcp://", TransportKind::tcp, 1883},
                                         {"mqtts://", TransportKind::tls, 8883},
                                         {"tls://", TransportKind::tls, 8883},
                                         {"ws://", TransportKind::ws, 80},
                                         {"wss://", TransportKind::wss, 443}}};

}  // namespace

ServerAddress parse_server(std::string_view url) {
    const auto scheme = std::ranges::find_if(
        schemes, [&](const Scheme& each) { return url.starts_with(each.beginning); });
    if (scheme == schemes.end())
        throw std::invalid_argument(
            "write the server's address as mqtt://HOST:PORT, mqtts://HOST:PORT, "
            "ws://HOST:PORT/PATH "
            "or wss://HOST:PORT/PATH");
    url.remove_prefix(scheme->beginning.size());

    ServerAddress server{scheme->transport, {}, scheme->port, {}};
    if (const auto slash = url.find('/'); slash != std::string_view::npos) {
        server.path = url.substr(slash);
        url = url.substr(0, slash);
    }
    const bool web =
        server.transport == TransportKind::ws || server.transport == TransportKind::wss;
    if (!web && server.path.size() > 1)
        throw std::invalid_argument("leave out the path: only ws:// and wss:// have one");
    if (!web) server.path.clear();

    const auto address = parse_address("mqtt://" + std::string(url));
    server.host = address.host;
    const bool names_port = url.rfind(':') != std::string_view::npos && !url.ends_with(']');
    if (names_port) server.port = address.port;
    return server;
}

std::vector<ServerAddress> parse_servers(std::string_view urls) {
    std::vector<ServerAddress> servers;
    while (true) {
        const auto comma = urls.find(',');
        servers.push_back(parse_server(urls.substr(0, comma)));
        if (comma == std::string_view::npos) return servers;
        urls.remove_prefix(comma + 1);
    }
}

void parse_presence(Target& target, std::string_view text) {
    if (text == "topic")
        target.presence_topic = true;
    else if (text.starts_with("events=") && text.size() > 7)
        target.events_file = text.substr(7);
    else
        throw std::invalid_argument("write topic, or events=FILE");
}

double parse_http_rate(std::string_view text) {
    const double rate = parse_rate(text);
    if (rate <= 0 || rate > 1000)
        throw std::invalid_argument("write a rate above 0 and up to 1000/s, such as 10/s");
    return rate;
}

std::string url_of(const ServerAddress& server) {
    const auto scheme = std::ranges::find_if(
        schemes, [&](const Scheme& each) { return each.transport == server.transport; });
    return fmt::format("{}{}{}", scheme->beginning, show(Address{server.host, server.port}),
                       server.path);
}

std::vector<ServerAddress> Target::servers_of(TransportKind transport) const {
    std::vector<ServerAddress> found;
    std::ranges::copy_if(servers, std::back_inserter(found), [&](const ServerAddress& server) {
        return server.transport == transport;
    });
    return found;
}

}  // namespace pulsegate::load
