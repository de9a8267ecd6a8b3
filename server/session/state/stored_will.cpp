#include "server/session/state/stored_will.h"

#include <utility>

#include "server/session/terms/sender_name.h"

namespace pulsegate {

std::unique_ptr<StoredWill> stored_will(const BrokerSettings& settings, const Connect& connect,
                                        std::string_view user, const AuthResult& login) {
    if (!connect.will) return nullptr;
    const Will& will = *connect.will;
    auto stored = std::make_unique<StoredWill>();
    stored->message = make_message(will.topic, will.payload, will.properties, will.qos,
                                   will.retain && settings.retain_available, 0);
    stored->message.expires = 0;
    state_sender(settings, stored->message, user);
    stored->message_expiry = will.properties.number(Property::message_expiry_interval);
    stored->delay = will.properties.number(Property::will_delay_interval).value_or(0);
    stored->rules = login.rules;
    stored->authorized_until = login.expiry;
    stored->token_issued = login.token_issued;
    return stored;
}

std::uint32_t will_flags(const Message& will) {
    return static_cast<std::uint32_t>(will.qos) | (will.retain ? 4u : 0u);
}

void set_will_flags(Message& will, std::uint32_t flags) {
    will.qos = static_cast<QoS>(flags & 3);
    will.retain = (flags & 4) != 0;
}

Message take_message(StoredWill& will, Millis now) {
    if (will.message_expiry) will.message.expires = now + Millis{*will.message_expiry} * 1000;
    return std::move(will.message);
}

}  // namespace pulsegate
