#include "server/message.h"

#include <utility>

namespace pulsegate {

bool reserved_topic(std::string_view topic) {
    return topic.starts_with('$') || topic.starts_with("presence/");
}

std::string travelling(const Properties& properties) {
    PropertyList kept;
    properties.for_each([&](const PropertyValue& property) {
        switch (property.id) {
            case Property::payload_format_indicator:
            case Property::message_expiry_interval:
            case Property::content_type:
            case Property::response_topic:
            case Property::correlation_data:
            case Property::user_property: kept.add(property); break;
            default: break;
        }
    });
    return std::move(kept).take();
}

}  // namespace pulsegate
