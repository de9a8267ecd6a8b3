#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "protocol/packet.h"
#include "server/message/message.h"
#include "server/session/durable/shard_messages.h"
#include "server/session/terms/session_id.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

// Tasks that a shard leaves to itself, for a later round of its loop.

/// Continue the replay of a session, in a round of its own.
struct ReplayTurn {
    std::uint64_t id;
};

/// Hand in operations; see Journal.
struct JournalTurn {};

/// Publish the next delayed message.
struct DelayedTurn {};

/// A client's delayed message was cancelled, or did not exist.
struct DelayedCancelled {
    ReceiptId receipt;  ///< a part of this receipt is settled; 0: none
    std::uint16_t packet_id;
    QoS qos;
    bool is_promised = false;  ///< see CancelDelayed
    bool found = false;
    bool refused = false;
};

/// These messages are stored for the members that they will be sent to.
struct GroupStored {
    struct Waiting {
        SessionId member;
        Stamp stamp;
    };
    std::vector<Waiting> messages;
};

using OwnTurn = std::variant<ReplayTurn, JournalTurn, DelayedTurn, DelayedCancelled, GroupStored>;

// Answers of the ledger to the shard that asked.

/// The oldest waiting unit is committed, or refused and given back.
struct UnitDone {
    bool refused;
    std::vector<Operation> operations;
    std::vector<bool> cancelled{};  ///< for each CancelDelayed: was there such a message?
    bool incomplete = false;        ///< committed, except operations that the database rejects
};

/// Messages of a session's queue were read from the store.
struct MessagesRead {
    SessionId session;
    bool refused;  ///< the store was in trouble
    std::vector<Stamp> asked;
    std::vector<MessageRef> found{};  ///< in their order
};

/// These delayed messages are due.
struct DelayedDue {
    std::vector<PutDelayed> messages;
};

using LedgerAnswer = std::variant<UnitDone, MessagesRead, DelayedDue>;

}  // namespace pulsegate
