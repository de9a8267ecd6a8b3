#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/session/life/restore.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

/// What was read of one session that may be packed: its texts and messages are in PlainSessions.
struct PlainSession {
    std::size_t names = 0;   ///< where they begin
    std::size_t filter = 0;  ///< where it begins
    std::uint32_t expiry = 0;
    std::uint32_t identifier = 0;
    std::uint32_t last_message = 0;  ///< its place, and 1; 0: none
    std::uint16_t filter_size = 0;   ///< 0: no subscription
    std::uint8_t user_size = 0;
    std::uint8_t client_size = 0;
    std::uint8_t protocol = 0;
    std::uint8_t options = 0;
    std::uint8_t messages = 0;
};

/// Collects what the store has of sessions that may be packed, table by table, in few allocations:
/// a million sessions that wait for their next row would take the memory that packing saves.
class PlainSessions {
public:
    static bool fits(const PutOwner& stored);
    PlainSession add(const PutOwner& stored);
    /// False: the session needs more than a record.
    bool add(PlainSession& session, const PutSubscription& stored);
    bool add(PlainSession& session, const WaitingMessage& stored, const Receiver& receiver,
             Millis expires, bool perhaps_sent);

    /// All of it; valid until the next call.
    StoredSession get(const PlainSession& session);

private:
    struct Message {
        DormantMessage message;
        std::uint32_t before;  ///< of the same session, as `last_message`
    };

    std::string texts_;
    std::vector<Message> messages_;
    std::vector<DormantMessage> of_one_;  ///< kept for its capacity
};

}  // namespace pulsegate
