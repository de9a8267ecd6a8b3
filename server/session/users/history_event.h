#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string_view>

#include "protocol/packet.h"
#include "protocol/reason.h"
#include "server/base/clock.h"
#include "server/session/terms/cause.h"
#include "server/session/terms/link.h"

namespace pulsegate {

/// Events of a user and their clients. The numbers pass to another process in an upgrade.
enum class HistoryKind : std::uint8_t {
    login,
    refused,        ///< a login
    taken_over,     ///< by another connection
    ended,          ///< a connection, for its cause
    banned,         ///< or a client of the user
    ban_lifted,     ///< the same
    dropped,        ///< messages to a client
    session_ended,  ///< the session of an absent client
};

std::string_view name(HistoryKind kind);

/// One event, or several equal ones. Members that do not apply are empty. The texts are borrowed,
/// and are cut if they are long.
struct HistoryEvent {
    HistoryKind kind{};
    WallMillis time = 0;      ///< time of the last event
    std::uint32_t count = 1;  ///< the number of events, or of affected messages
    Millis lasted = 0;        ///< from the first event to the last one
    Millis silence = 0;       ///< before a connection ended
    Cause cause{};            ///< why it ended
    Reason reason{};          ///< reason code of a refusal
    Version version{};
    std::string_view client{};
    std::string_view address{};
    std::string_view listener{};
    std::string_view why{};
    const Link* link = nullptr;  ///< link of the client, for traces; it is not kept
    bool is_traced = false;      ///< traces of the user already have it
};

/// An event in the form of the HTTP API. Members that do not apply are left out.
boost::json::object to_json(const HistoryEvent& event);

}  // namespace pulsegate
