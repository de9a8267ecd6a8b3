#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/memory/populated_array.h"
#include "server/base/owner_thread.h"
#include "server/limits/address.h"
#include "server/session/trace/tracer.h"
#include "server/session/users/history_event.h"

namespace pulsegate {

/// The user and the account of an event. They are the same in another process with the same store.
struct HistoryOwner {
    std::uint64_t user = 0;     ///< a fingerprint
    std::uint64_t account = 0;  ///< that the event is charged to
};

/// Events in a fixed amount of memory, which is allocated at the start. Owners share blocks of 4
/// KiB, by their hash. When a block is full, the account with the most events in it loses its
/// oldest event. So an account that causes many events loses its own.
class HistoryBlocks {
public:
    explicit HistoryBlocks(std::size_t bytes);

    void add(const HistoryOwner& owner, const HistoryEvent& event);
    /// Adds the event even if it equals the last one.
    void append(const HistoryOwner& owner, const HistoryEvent& event);
    /// Visits the user's events in the order in which they were added.
    void visit(std::uint64_t user, const std::function<void(const HistoryEvent&)>& visitor) const;
    /// Visits all events; those of one owner in the order in which they were added.
    void visit_all(
        const std::function<void(const HistoryOwner&, const HistoryEvent&)>& visitor) const;
    void forget(std::uint64_t user);

    static constexpr std::size_t block_bytes = 4096;

private:
    struct Block {
        std::uint16_t used = 0;
        char bytes[block_bytes - sizeof(std::uint16_t)]{};
    };
    struct Head;

    Block& block_of(std::uint64_t user) { return blocks_[user % blocks_.size()]; }
    static void append(Block& block, const Head& head, const HistoryEvent& event);
    static bool add_to_last(Block& block, const Head& head, const HistoryEvent& event);
    static void make_room(Block& block, const Head& head);
    static void remove(Block& block, std::size_t place);

    PopulatedArray<Block> blocks_;
};

/// The latest events of the users of a shard, while the process runs. Refused logins may name any
/// user, so they are charged to their address and have separate memory: a scanner pushes out only
/// its own events. Traces of the user get each event at once. It belongs to the shard's thread.
class History {
public:
    /// `bytes`: 0 keeps nothing.
    History(std::size_t bytes, Tracer& tracer);

    /// Are events kept or traced?
    bool is_on() const { return keeps_ || tracer_.is_on(); }
    void add(std::string_view user, const HistoryEvent& event);
    /// `address` is in the form that the limits by address use, so that an IPv6 network has one
    /// share.
    void add_refused(std::string_view user, const Address& address, const HistoryEvent& event);
    /// Visits the user's events in the order in which they were added; refused logins come last.
    void visit(std::string_view user,
               const std::function<void(const HistoryEvent&)>& visitor) const;
    void forget(std::string_view user);

    // Call these in an upgrade, when another process continues with the same users; see
    // history_passage.h.

    enum class Part : std::uint8_t { users, refused_logins };
    /// Visits all events of a part; those of one owner in their order.
    void visit_all(
        Part part,
        const std::function<void(const HistoryOwner&, const HistoryEvent&)>& visitor) const;
    /// Adds an event of another process, without telling traces. Call it in the order of events.
    void adopt(Part part, const HistoryOwner& owner, const HistoryEvent& event);

private:
    void tell_traces(std::string_view user, const HistoryEvent& event);

    const bool keeps_;
    Tracer& tracer_;
    HistoryBlocks of_users_;
    HistoryBlocks of_refused_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
