#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/store/unit.h"

namespace pulsegate {

/// A message that waits, without its body.
struct WaitingMessage {
    Stamp stamp;
    WallMillis expires;
    std::uint32_t flags;
    std::size_t bytes;  ///< of properties and payload
};

/// A message with its body.
struct StoredMessage {
    Stamp stamp;
    WallMillis expires;
    std::uint32_t flags;
    MessageRef message;
};

/// Keeps what has to outlive the process: it takes units of operations, applies each completely or
/// not at all, in the order in which they were submitted, and tells when they are safe. It knows
/// neither sessions nor sockets. Any thread may submit; completions and answers are called on the
/// ledger's thread.
class Ledger {
public:
    /// Is told what is stored. Owners come first, then what belongs to them.
    class Visitor {
    public:
        virtual ~Visitor() = default;

        virtual void owner(const PutOwner&) {}
        virtual void subscription(const PutSubscription&) {}
        virtual void absence(PutAbsence) {}
        virtual void incoming(PutIncoming) {}
        virtual void exchange(PutExchange, bool /*released*/) {}
        virtual void will(const PutWill&) {}
        /// In the order of stamps.
        virtual void waiting(const WaitingMessage&, const Receiver&) {}
        virtual void retained(const PutRetained&) {}
        /// The next ones to be published first.
        virtual void delayed(const PutDelayed&) {}
        virtual void user(const PutUser&) {}
    };

    /// Where this process begins to count.
    struct Start {
        Stamp floor = 0;         ///< no stamp so far was larger
        OwnerId next_owner = 1;  ///< the least number that no owner has had
    };

    virtual ~Ledger() = default;

    /// Visits all that is stored, but only those delayed messages that are due before
    /// `delayed_before`, in seconds since 1970. Called once, before all else. Throws
    /// std::runtime_error if the store can't be read.
    virtual Start load(Visitor& visitor, std::int64_t delayed_before) = 0;

    virtual void submit(Unit unit) = 0;

    /// For what may be lost: the unit waits for the next commit, at most a second.
    virtual void submit_lazily(Unit unit) = 0;

    // Reads see all units that were submitted before. If the disk is in trouble they are answered
    // as if nothing were stored, with `refused`.

    using OwnerAnswer = std::function<void(Outcome, std::optional<PutOwner>)>;
    virtual void find_owner(OwnerKind kind, std::string user, std::string client,
                            OwnerAnswer answer) = 0;

    /// In the order of `stamps`, without those that are not stored or whose bytes are damaged.
    using MessagesAnswer = std::function<void(Outcome, std::vector<StoredMessage>)>;
    virtual void read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) = 0;

    /// Is the disk in trouble, and everything refused?
    virtual bool refusing() const = 0;
};

}  // namespace pulsegate
