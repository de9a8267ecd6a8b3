#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/message/message.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

class Inboxes;
class PacketSender;
class Session;
class SessionTable;
struct User;

/// A message in an inbox.
struct InboxEntry {
    Stamp stamp;
    std::size_t bytes;  ///< approximate memory, with its body
    QoS qos;
    Millis expires;      ///< 0: never
    bool is_under_way;   ///< sent to a device and not acknowledged
    MessageRef message;  ///< null: only the store has it
};

/// The message after which a page begins, in the order of stamps. Without a store, all messages may
/// have the same stamp, so this also has the number of messages with this stamp to skip.
struct InboxPosition {
    Stamp stamp = 0;
    std::size_t of_same_stamp = 0;
};

struct InboxView {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    Stamp oldest = 0;
    std::optional<Millis> left{};  ///< time until the inbox ends, unless a message arrives
    std::vector<InboxEntry> page{};
    std::optional<InboxPosition> next{};  ///< nothing: the page is the last one
};

struct InboxDropped {
    std::size_t messages = 0;
    std::size_t under_way = 0;  ///< sent to connected devices, so they stay
    bool more = false;          ///< more messages are left
};

/// The inbox of a user for the HTTP API: the messages that wait for the first device, and the
/// messages that were handed out to a device and are not acknowledged.
class InboxAccess {
public:
    InboxAccess(PacketSender& packets, Inboxes& inboxes) : packets_(packets), inboxes_(inboxes) {}

    /// All sums, and a page of up to `most` messages and up to this many bytes, but at least one
    /// message.
    static InboxView look(const SessionTable& sessions, const User& user, InboxPosition after,
                          std::size_t most, std::size_t most_bytes, Millis now);

    /// Drops a limited number of messages of the inbox.
    InboxDropped drop_some(User& user, Millis now);

private:
    std::size_t drop(Session& session, std::size_t most);

    PacketSender& packets_;
    Inboxes& inboxes_;
};

}  // namespace pulsegate
