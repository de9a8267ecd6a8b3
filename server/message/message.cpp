#include "server/message/message.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "server/base/memory/recycled.h"

namespace pulsegate {

namespace {

std::atomic<std::size_t> shared_bytes{0};

std::atomic<std::uint64_t> last_stamp{0};

struct SharedMessage : Message {
    explicit SharedMessage(Message&& message) : Message(std::move(message)) {
        shared_bytes.fetch_add(cost(), std::memory_order_relaxed);
    }
    ~SharedMessage() { shared_bytes.fetch_sub(cost(), std::memory_order_relaxed); }
    SharedMessage(const SharedMessage&) = delete;
    SharedMessage& operator=(const SharedMessage&) = delete;
};

}  // namespace

MessageRef share(Message&& message) {
    return std::allocate_shared<SharedMessage>(RecyclingAllocator<SharedMessage>(),
                                               std::move(message));
}

std::size_t bytes_of_messages() { return shared_bytes.load(std::memory_order_relaxed); }

Message make_message(std::string_view topic, std::string_view payload, const Properties& properties,
                     QoS qos, bool retain, Millis now) {
    Message message{.topic = std::string(topic),
                    .payload = std::string(payload),
                    .properties = {},
                    .qos = qos,
                    .retain = retain};
    PropertyList kept;
    properties.for_each([&](const PropertyValue& property) {
        switch (property.id) {
            case Property::message_expiry_interval:
                message.expires = now + Millis{property.number} * 1000;
                break;
            case Property::payload_format_indicator:
            case Property::content_type:
            case Property::response_topic:
            case Property::correlation_data:
            case Property::user_property: kept.add(property); break;
            default: break;
        }
    });
    message.properties = std::move(kept).take();
    return message;
}

std::uint64_t next_stamp() {
    const auto by_clock = stamp_at(wall_now());
    auto last = last_stamp.load(std::memory_order_relaxed);
    std::uint64_t next = 0;
    do next = std::max(last + 1, by_clock);
    while (!last_stamp.compare_exchange_weak(last, next, std::memory_order_relaxed));
    return next;
}

void set_stamp_floor(std::uint64_t floor) {
    auto last = last_stamp.load(std::memory_order_relaxed);
    while (last < floor &&
           !last_stamp.compare_exchange_weak(last, floor, std::memory_order_relaxed)) {
    }
}

}  // namespace pulsegate
