#include "server/session/users/history_event.h"

#include "protocol/version_name.h"

namespace pulsegate {

namespace {

void add_unless_empty(boost::json::object& told, const char* name, std::string_view text) {
    if (!text.empty()) told[name] = text;
}

}  // namespace

std::string_view name(HistoryKind kind) {
    switch (kind) {
        case HistoryKind::login: return "login";
        case HistoryKind::refused: return "login_refused";
        case HistoryKind::taken_over: return "taken_over";
        case HistoryKind::ended: return "disconnected";
        case HistoryKind::banned: return "banned";
        case HistoryKind::ban_lifted: return "ban_lifted";
        case HistoryKind::dropped: return "messages_dropped";
        case HistoryKind::session_ended: return "session_ended";
    }
    return "unknown";
}

boost::json::object to_json(const HistoryEvent& event) {
    boost::json::object told{{"time", rfc3339(event.time)}, {"event", name(event.kind)}};
    if (event.kind == HistoryKind::ended) {
        told["cause"] = name(event.cause);
        told["silence"] = static_cast<double>(event.silence) / 1000;
    }
    if (event.reason != Reason::success) {
        told["reason"] = name(event.reason);
        told["code"] = static_cast<int>(event.reason);
    }
    add_unless_empty(told, "why", event.why);
    add_unless_empty(told, "client", event.client);
    add_unless_empty(told, "address", event.address);
    add_unless_empty(told, "listener", event.listener);
    if (event.version != Version{}) told["mqtt"] = version_name(event.version);
    if (event.count > 1 || event.kind == HistoryKind::dropped) told["count"] = event.count;
    if (event.lasted > 0) told["first"] = rfc3339(event.time - event.lasted);
    return told;
}

}  // namespace pulsegate
