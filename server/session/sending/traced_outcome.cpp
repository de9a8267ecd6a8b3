#include "server/session/sending/traced_outcome.h"

#include <boost/json/object.hpp>
#include <string_view>

#include "protocol/utf8.h"

namespace pulsegate {

namespace {

constexpr std::size_t longest_traced_topic = 256;

const char* why_it_waits(const Session& session) {
    return session.has_connack() ? "its window or its connection has no room"
                                 : "the client is away";
}

const char* why_it_is_dropped(DeliveryOutcome outcome) {
    return outcome == DeliveryOutcome::dropped ? "it has expired, or the client has no room for it"
                                               : "there is no room in the queue";
}

}  // namespace

void trace_outcome(Tracer& tracer, const Session& session, const Delivery& delivery,
                   DeliveryOutcome outcome) {
    tracer.tell({.user = session.user.name, .client = session.client, .link = session.link}, [&] {
        const bool waits = outcome == DeliveryOutcome::queued;
        const Message& message = *delivery.message;
        return boost::json::object{
            {"event", waits ? "message_queued" : "message_dropped"},
            {"topic", first_characters(message.topic, longest_traced_topic)},
            {"qos", static_cast<int>(delivery.qos)},
            {"why", waits ? why_it_waits(session) : why_it_is_dropped(outcome)}};
    });
}

}  // namespace pulsegate
