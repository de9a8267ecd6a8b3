#include "server/shard/traced_connections.h"

#include <variant>

#include "server/session/state/session.h"
#include "server/session/trace/packet_summary.h"
#include "server/session/users/history_json.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

TraceSubject traced_subject(const Connection& connection) {
    const Session* const session = connection.session;
    if (!session) return {.link = &connection};
    return {.user = session->user.name, .client = session->client, .link = &connection};
}

/// The user and the client id that a CONNECT names, whether or not the login succeeds.
void claim_by_connect(Broker& broker, const Connection& connection, Bytes packet, Version version) {
    const Decoded decoded = decode(packet, version, Sender::client);
    const auto* const read = std::get_if<Packet>(&decoded);
    const auto* const connect = read ? std::get_if<Connect>(read) : nullptr;
    if (!connect) return;
    const auto user = broker.user_name(*connect, {}, connect->client_id);
    broker.tracer().claim(connection, user, connect->client_id);
}

}  // namespace

void trace_packet(Broker& broker, const Connection& connection, Bytes packet, Version version,
                  Sender sender) {
    if (!connection.session && sender == Sender::client)
        claim_by_connect(broker, connection, packet, version);
    TraceSubject subject = traced_subject(connection);
    subject.may_be_claimed = !connection.session && sender == Sender::client;
    broker.tracer().tell(subject, [&] { return packet_summary(packet, version, sender); });
}

void trace_end(Broker& broker, const Connection& connection, const Ending& ending, Millis now) {
    const HistoryEvent ended{.kind = HistoryKind::ended,
                             .time = wall_now(),
                             .silence = now - connection.last_packet(),
                             .cause = ending.cause,
                             .reason = ending.reason,
                             .why = ending.why};
    broker.tracer().tell({.link = &connection}, [&] { return to_json(ended); });
}

}  // namespace pulsegate
