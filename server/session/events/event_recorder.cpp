#include "server/session/events/event_recorder.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "protocol/utf8.h"
#include "server/auth/base64.h"
#include "server/message/topics.h"
#include "server/session/terms/recorded_name.h"
#include "server/session/terms/sender_name.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

/// The maximum number of events per minute about one sender's messages to inboxes, and the same for
/// rooms. Each event takes a few hundred bytes on disk, and may cause a push notification.
constexpr unsigned most_waiting_a_minute = 600;
/// A longer payload is not included, because it is no text for a notification.
constexpr std::size_t longest_told_payload = 4096;

void add_payload(json::object& event, const std::string& payload) {
    if (payload.size() > longest_told_payload) return;
    if (valid_utf8(payload))
        event["payload"] = payload;
    else
        event["payload_base64"] = to_base64(payload);
}

const char* protocol_name(Version version) {
    switch (version) {
        case Version::v3_1: return "3.1";
        case Version::v3_1_1: return "3.1.1";
        case Version::v5_0: break;
    }
    return "5.0";
}

}  // namespace

void EventRecorder::add(EventKind kind, std::string body, bool is_promised) {
    journal_.put({.kind = static_cast<std::uint8_t>(kind),
                  .body = std::move(body),
                  .is_promised = is_promised});
}

void EventRecorder::presence(const PresenceChange& change) {
    if (wants(EventKind::presence)) add(EventKind::presence, to_json(change), true);
}

void EventRecorder::login(const Session& session, bool resumed) {
    if (!wants(EventKind::login)) return;
    add(EventKind::login, json::serialize(json::object{
                              {"time", rfc3339(session.since)},
                              {"user", recorded_name(session.user.name)},
                              {"client", recorded_name(session.client)},
                              {"address", session.link->peer()},
                              {"protocol", protocol_name(session.terms.version)},
                              {"session_present", resumed},
                          }));
}

void EventRecorder::refused(std::string_view peer, const Connect& connect, Reason reason,
                            std::string_view why) {
    if (!wants(EventKind::login_refused)) return;
    const Millis now = monotonic_now();
    if (!refusals_.take(now)) {
        ++counters_.events_withheld;
        return;
    }
    json::object event{
        {"time", rfc3339(wall_now())},
        {"user", recorded_name(connect.username.value_or(""))},
        {"client", recorded_name(connect.client_id)},
        {"address", peer},
        {"reason", name(reason)},
        {"why", why},
    };
    if (const auto others = refusals_.suppressed(now)) event["refused_untold"] = others;
    add(EventKind::login_refused, json::serialize(event));
}

/// The account for events about this message; 0: no limit, for the gateway's own messages. A
/// message to a room may have very many receivers, so rooms have a separate account. Then their
/// events don't use up the sender's limit for messages to friends.
std::uint64_t EventRecorder::causer_of(const Message& message) {
    const bool is_for_room = room_of(message.topic).has_value();
    return message.sender ^ std::uint64_t{is_for_room};
}

bool EventRecorder::may_tell_waiting(const Message& message, Millis now) {
    const std::uint64_t causer = causer_of(message);
    return causer == 0 || causers_.count(causer, now) < most_waiting_a_minute;
}

void EventRecorder::message_waiting(const Message& message, std::string_view to,
                                    std::size_t waiting, PartRef part, Millis now) {
    if (!may_tell_waiting(message, now)) return withhold();
    if (const std::uint64_t causer = causer_of(message); causer != 0) causers_.add(causer, now);
    json::object event{
        {"time", rfc3339(wall_now())},
        {"to", recorded_name(to)},
        {"topic", recorded_name(message.topic)},
        {"qos", static_cast<int>(message.qos)},
        {"payload_bytes", message.payload.size()},
        {"waiting", waiting},
    };
    const auto from = sender_of(settings_, message);
    if (!from.empty()) event["from"] = recorded_name(from);
    if (settings_.webhook_payload) add_payload(event, message.payload);
    const bool tells_publisher = part && journal_.is_on();
    add(EventKind::message_waiting, json::serialize(event), !tells_publisher);
    // Commits soon, because notifications are urgent.
    journal_.await(tells_publisher ? std::move(part) : PartRef());
}

}  // namespace pulsegate
