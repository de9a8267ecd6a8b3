#include "server/shard/traced_connections.h"

#include <variant>

#include "server/auth/auth_result.h"
#include "server/base/clock.h"
#include "server/session/life/logins.h"
#include "server/session/state/session.h"
#include "server/session/trace/packet_summary.h"
#include "server/session/trace/tracer.h"
#include "server/session/users/history_event.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

TraceSubject traced_subject(const Connection& connection) {
    const Session* const session = connection.session;
    if (!session) return {.link = &connection};
    return {.user = session->user.name, .client = session->client, .link = &connection};
}

/// The user and client id that a CONNECT names, whether or not the login succeeds.
void claim_by_connect(Logins& logins, const Connection& connection, Bytes packet, Version version) {
    const Decoded decoded = decode(packet, version, Sender::client);
    const auto* const read = std::get_if<Packet>(&decoded);
    const auto* const connect = read ? std::get_if<Connect>(read) : nullptr;
    if (connect) logins.tell_traces(connection, *connect, {});
}

}  // namespace

void trace_packet(Tracer& tracer, Logins& logins, const Connection& connection, Bytes packet,
                  Version version, Sender sender) {
    if (!connection.session && sender == Sender::client)
        claim_by_connect(logins, connection, packet, version);
    TraceSubject subject = traced_subject(connection);
    subject.may_be_claimed = !connection.session && sender == Sender::client;
    tracer.tell(subject, [&] { return packet_summary(packet, version, sender); });
}

void trace_end(Tracer& tracer, const Connection& connection, const Ending& ending, Millis now) {
    const HistoryEvent ended{.kind = HistoryKind::ended,
                             .time = wall_now(),
                             .silence = now - connection.last_packet(),
                             .cause = ending.cause,
                             .reason = ending.reason,
                             .why = ending.why};
    tracer.tell({.link = &connection}, [&] { return to_json(ended); });
}

}  // namespace pulsegate
