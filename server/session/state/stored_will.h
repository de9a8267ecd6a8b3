#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "protocol/packet.h"
#include "server/auth/access.h"
#include "server/auth/auth_result.h"
#include "server/base/clock.h"
#include "server/base/gateway_sum.h"
#include "server/message/message.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// A will (MQTT 5.0, 3.1.2.5).
struct StoredWill {
    Message message;  ///< its Message Expiry Interval begins when it is published
    std::optional<std::uint32_t> message_expiry = {};  ///< that interval, in seconds
    std::uint32_t delay = 0;                           ///< Will Delay Interval, in seconds
    std::shared_ptr<const AccessRules> rules{};        ///< of the login, if it has any
    std::optional<std::int64_t> authorized_until{};    ///< seconds since 1970
    std::optional<std::int64_t> token_issued{};        ///< the token's time of issue, if the login
                                                       ///< was by a token
    bool is_stored = false;                            ///< with its session
    CountedBytes counted{};                            ///< among all wills
};

/// The will of a CONNECT of the user; null if it has none. `login` has the rules and expiry of the
/// login, if it has any.
std::unique_ptr<StoredWill> stored_will(const BrokerSettings& settings, const Connect& connect,
                                        std::string_view user, const AuthResult& login);

/// The flags of the will's message in the store, and the reverse.
std::uint32_t will_flags(const Message& will);
void set_will_flags(Message& will, std::uint32_t flags);

/// The will as a message that is published `now`.
Message take_message(StoredWill& will, Millis now);

}  // namespace pulsegate
