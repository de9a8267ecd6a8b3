#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/message/message.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// A message in an inbox.
struct InboxEntry {
    Stamp stamp;
    std::size_t bytes;  ///< in memory with its body, about
    QoS qos;
    Millis expires;      ///< 0: never
    bool is_under_way;   ///< sent to a device, and not acknowledged
    MessageRef message;  ///< null: only the store has it
};

/// Behind which message a page begins: in the order of stamps, and of those with the same stamp,
/// which without a store all messages may have, behind so many.
struct InboxPosition {
    Stamp stamp = 0;
    std::size_t of_same_stamp = 0;
};

struct InboxView {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    Stamp oldest = 0;
    std::optional<Millis> left{};  ///< until the inbox ends, unless something comes
    std::vector<InboxEntry> page{};
    std::optional<InboxPosition> next{};  ///< nothing: the page is the last one
};

/// The inbox of a user for the admin API: what waits for the first device, with what a device was
/// lent and has not acknowledged.
class InboxAccess {
public:
    InboxAccess(PacketSender& sender, Inboxes& inboxes) : sender_(sender), inboxes_(inboxes) {}

    /// All sums, and a page: up to `most` messages, and so many bytes, but at least one message.
    static InboxView look(const User& user, InboxPosition after, std::size_t most,
                          std::size_t most_bytes, Millis now);

    struct Dropped {
        std::size_t messages = 0;
        bool more = false;
        std::size_t under_way = 0;  ///< sent to devices that are connected: they stay
    };
    /// Drops the messages that are in it, a bounded number.
    Dropped drop_some(User& user, Millis now);

private:
    std::size_t drop(Session& session, std::size_t most);

    PacketSender& sender_;
    Inboxes& inboxes_;
};

}  // namespace pulsegate
