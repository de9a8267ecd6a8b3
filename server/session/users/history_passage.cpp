#include "server/session/users/history_passage.h"

#include <string>
#include <utility>

namespace pulsegate {

namespace {

HistoryRecord::Event event_record(History::Part part, const HistoryOwner& owner,
                                  const HistoryEvent& event) {
    return {.user = owner.user,
            .account = static_cast<std::uint32_t>(owner.account),
            .is_refused = part == History::Part::refused_logins,
            .kind = static_cast<std::uint8_t>(event.kind),
            .time = event.time,
            .count = event.count,
            .lasted = event.lasted,
            .silence = event.silence,
            .cause = static_cast<std::uint8_t>(event.cause),
            .reason = static_cast<std::uint8_t>(event.reason),
            .version = static_cast<std::uint8_t>(event.version),
            .client = std::string(event.client),
            .address = std::string(event.address),
            .listener = std::string(event.listener),
            .why = std::string(event.why)};
}

/// The event's texts refer to the record.
HistoryEvent event_of(const HistoryRecord::Event& record) {
    return {.kind = static_cast<HistoryKind>(record.kind),
            .time = record.time,
            .count = record.count,
            .lasted = record.lasted,
            .silence = record.silence,
            .cause = static_cast<Cause>(record.cause),
            .reason = static_cast<Reason>(record.reason),
            .version = static_cast<Version>(record.version),
            .client = record.client,
            .address = record.address,
            .listener = record.listener,
            .why = record.why};
}

bool is_known(const HistoryRecord::Event& record) {
    return record.kind <= static_cast<std::uint8_t>(HistoryKind::session_ended) &&
           record.cause <= static_cast<std::uint8_t>(last_cause);
}

}  // namespace

void describe(const History& history, std::uint32_t shard,
              const std::function<void(const HistoryRecord&)>& visit) {
    HistoryRecord record{.shard = shard};
    record.events.reserve(events_of_record);
    for (const auto part : {History::Part::users, History::Part::refused_logins})
        history.visit_all(part, [&](const HistoryOwner& owner, const HistoryEvent& event) {
            record.events.push_back(event_record(part, owner, event));
            if (record.events.size() < events_of_record) return;
            visit(record);
            record.events.clear();
        });
    if (!record.events.empty()) visit(record);
}

void adopt(History& history, const HistoryRecord& record) {
    for (const HistoryRecord::Event& each : record.events)
        if (is_known(each))
            history.adopt(each.is_refused ? History::Part::refused_logins : History::Part::users,
                          {each.user, each.account}, event_of(each));
}

}  // namespace pulsegate
