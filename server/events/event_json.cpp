#include "server/events/event_json.h"

#include <fmt/format.h>

#include <string_view>

#include "server/events/event_kind.h"

namespace pulsegate {

std::string event_id(std::uint64_t log, EventNumber number) {
    return fmt::format("{:x}-{}", log, number);
}

std::string event_json(std::uint64_t log, const StoredEvent& event) {
    const std::string_view members = std::string_view(event.body).substr(1);  // behind the brace
    return fmt::format(R"({{"id":"{}","type":"{}",{})", event_id(log, event.number),
                       name(static_cast<EventKind>(event.kind)), members);
}

std::string batch_json(std::uint64_t log, std::span<const StoredEvent> events, bool repeat) {
    std::string body = fmt::format(R"({{"repeat":{},"events":[)", repeat);
    for (const StoredEvent& event : events) {
        if (&event != &events.front()) body += ',';
        body += event_json(log, event);
    }
    return body + "]}";
}

}  // namespace pulsegate
