#include "server/http/users/client_json.h"

#include "protocol/version_name.h"

namespace pulsegate {

namespace {

constexpr Millis silence_of_a_keepalive = 1500;  ///< ms of silence for each second of keepalive

double in_seconds(Millis time) { return static_cast<double>(time) / 1000; }

}  // namespace

boost::json::object to_json(const ClientDescription& client, Millis now, WallMillis wall) {
    boost::json::object one{{"user", client.user},
                            {"client", client.client},
                            {"connected", client.connected.has_value()},
                            {"state", client.connected ? "connected" : "away"}};
    if (client.connected) {
        const auto& connection = *client.connected;
        one["address"] = connection.peer;
        one["listener"] = connection.listener;
        one["mqtt"] = version_name(connection.version);
        one["connected_since"] = rfc3339(connection.since);
        one["last_packet"] = rfc3339(wall - (now - connection.last_packet));
        one["silence"] = in_seconds(now - connection.last_packet);
        one["silence_limit"] = in_seconds(connection.limit);
        one["keepalive"] = connection.limit / silence_of_a_keepalive;
    }
    one["queued"] = client.queued;
    one["queued_bytes"] = client.queued_bytes;
    one["in_flight"] = client.in_flight;
    one["subscriptions"] = client.subscriptions;
    one["session_expiry"] = client.expiry;
    return one;
}

}  // namespace pulsegate
