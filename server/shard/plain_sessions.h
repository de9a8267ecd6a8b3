#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/session/life/restore.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

/// The stored data of one session that may be packed. Its texts and messages are in PlainSessions.
struct PlainSession {
    std::size_t names = 0;   ///< where the names begin
    std::size_t filter = 0;  ///< where the filter begins
    std::uint32_t expiry = 0;
    std::uint32_t identifier = 0;
    std::uint32_t last_message = 0;  ///< its index plus 1; 0: none
    std::uint16_t filter_size = 0;   ///< 0: no subscription
    std::uint8_t user_size = 0;
    std::uint8_t client_size = 0;
    std::uint8_t protocol = 0;
    std::uint8_t options = 0;
    std::uint8_t messages = 0;
};

/// Collects the stored data of sessions that may be packed, table by table, in few allocations.
/// Otherwise a million half-read sessions would take the memory that packing saves.
class PlainSessions {
public:
    static bool fits(const PutOwner& stored);
    PlainSession add(const PutOwner& stored);
    /// Returns false if the session needs more than a record.
    bool add(PlainSession& session, const PutSubscription& stored);
    bool add(PlainSession& session, const WaitingMessage& stored, const Receiver& receiver,
             Millis expires, bool perhaps_sent);

    /// The whole session; valid until the next call.
    StoredSession get(const PlainSession& session);

private:
    struct Message {
        PackedMessage message;
        std::uint32_t before;  ///< the session's previous message, as in `last_message`
    };

    std::string texts_;
    std::vector<Message> messages_;
    std::vector<PackedMessage> of_one_;  ///< kept for its capacity
};

}  // namespace pulsegate
