#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/gateway_sum.h"
#include "server/base/memory/sparse.h"
#include "server/base/owner_thread.h"
#include "server/session/state/session.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/gateway_totals.h"
#include "server/session/users/presence_entry.h"
#include "wheel/stacked_wheel.h"

namespace pulsegate {

/// The sessions of one shard by user and client id, and the expiry of sessions with a disconnected
/// client. It owns the sessions; it belongs to the shard's thread and has no clock.
class SessionTable {
public:
    SessionTable(const BrokerSettings& settings, ShardPlace place, GatewayTotals& totals);
    ~SessionTable();
    SessionTable(const SessionTable&) = delete;
    SessionTable& operator=(const SessionTable&) = delete;

    void reserve(std::size_t sessions) { sessions_.reserve(sessions); }
    /// Call it once a second.
    void shrink() { shrink_if_sparse(sessions_); }
    /// Null if there is no such session.
    Session* find(const User& user, std::string_view client) const;
    Session& find_or_create(User& user, std::string client, WallMillis wall);
    void destroy(Session& session);

    /// From now on, the will counts in the sum of all shards, as long as it exists.
    void count(StoredWill& will) { will.counted = CountedBytes(wills_, will.message.cost()); }

    /// All ends come that much later: those of sessions, of waits for clients, and of the delays of
    /// wills.
    void postpone(Tick ticks) {
        postponed_ += Millis{ticks} * tick_length;
        last_postponed_ = now();
    }
    /// The table's own time, in which sessions end (Absence::ends): the tick without what
    /// `postpone` has added.
    Tick time_at(Millis now) const { return tick_at(std::max<Millis>(now - postponed_, 0)); }
    /// How long it is until the session ends.
    Millis time_left(const Absence& absence, Millis now) const {
        return (Millis{absence.ends} * tick_length) + postponed_ - now;
    }
    /// The same on the disk, where no end is postponed; perhaps less. `expiry` is in seconds.
    Millis time_left_on_disk(const Absence& absence, std::uint32_t expiry, Millis now) const {
        const bool may_be_postponed = absence.ends <= std::uint64_t{last_postponed_} + expiry + 1;
        return time_left(absence, now) - (may_be_postponed ? postponed_ : 0);
    }

    /// The client has disconnected: the session is due after its session expiry, or earlier when
    /// its will is due.
    void start_expiry(Session& session, Millis now);
    /// The client was connected when the process died. It counts as connected until `until`, and is
    /// absent after that if it has not come back.
    void await(Session& session, Millis until);
    /// When the will of a disconnected session is due; without a will, the end of the session.
    static Tick will_due(const Session& session);
    /// The client has reconnected, or its session ends; no effect if it was connected.
    void stop_expiry(Session& session);

    // Presence owns the records of packed sessions.

    /// Replaces the session with the record, and destroys the session.
    void replace(Session& session, PackedRecord& record);
    /// Replaces the record with the session, which is new. The expiry continues.
    void replace(PackedRecord& record, Session& session);
    /// Adds a record. Its client must have been disconnected for a shorter time than all others.
    void add(PackedRecord& record);

    /// The session that must end because `latest` has exceeded persistent-session-quota; or null.
    Absence* over_quota(Session& latest);

    /// Do the sessions of disconnected clients and all queues, which take `queued_bytes`, exceed
    /// persistent-session-bytes?
    bool over_budget(std::size_t queued_bytes) const;

    /// The event of a disconnected session that is due.
    enum class Due : std::uint8_t {
        goes,  ///< the session was awaited: its absence and the delay of its will begin
        will,  ///< the will is due, if there is one
        end,
    };
    /// `now` is in the table's time. Calls `due(Session&, Due)` for at most `most` disconnected
    /// sessions with which something is due. Returns true if there are more, or may be more.
    template <class Visit>
    [[nodiscard]] bool advance(Tick now, std::size_t most, Visit due);
    /// The table's time at the last call of `advance`.
    Tick now() const { return expiry_wheel_.now(); }

    /// The number of connected clients with messages that are not sent yet. It visits every
    /// session.
    std::size_t behind() const;

    /// Visits the sessions that are not packed. The visitor must not create or end any session.
    template <class Visit>
    void for_each(Visit visit) const {
        for (const auto& session : sessions_) visit(*session);
    }

    std::size_t connected() const { return sessions_.size() + packed_ - disconnected_; }
    std::size_t disconnected() const { return disconnected_; }
    std::size_t disconnected_bytes() const { return disconnected_bytes_; }
    std::size_t packed() const { return packed_; }

private:
    /// How many sessions may move to a lower level of the wheel in one call. Half a million may be
    /// due to move at the same time.
    static constexpr std::size_t moves_a_call = 256;

    void count(std::ptrdiff_t sessions, std::ptrdiff_t bytes);
    Due next(SessionExpiry& expiry);

    struct Key {
        const User& user;
        std::string_view client;
    };
    using Pointer = std::unique_ptr<Session>;
    struct Hash {
        using is_transparent = void;
        using is_avalanching = void;
        std::size_t operator()(const Key& key) const;
        std::size_t operator()(const Pointer& session) const {
            return (*this)(Key{session->user, session->client});
        }
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const Pointer& a, const Pointer& b) const { return a == b; }
        bool operator()(const Key& key, const Pointer& session) const {
            return &session->user == &key.user && session->client == key.client;
        }
        bool operator()(const Pointer& session, const Key& key) const {
            return (*this)(key, session);
        }
    };

    const BrokerSettings& settings_;
    const ShardPlace place_;
    GatewayTotals& totals_;
    ShardPart wills_;  ///< bytes
    boost::unordered_flat_set<Pointer, Hash, Equal> sessions_;
    SessionId next_id_;

    StackedWheel expiry_wheel_;  ///< SessionExpiry by the next due time
    Millis postponed_ = 0;
    Tick last_postponed_ = 0;  ///< in the table's time
    boost::intrusive::list<Absence, boost::intrusive::constant_time_size<false>>
        longest_disconnected_;  ///< the longest first
    std::size_t disconnected_ = 0;
    std::size_t packed_ = 0;              ///< how many of these are packed
    std::size_t disconnected_bytes_ = 0;  ///< see Absence
    [[no_unique_address]] OwnerThread thread_;
};

template <class Visit>
bool SessionTable::advance(Tick now, std::size_t most, Visit due) {
    thread_.assert_here();
    return expiry_wheel_.advance(
        now,
        [&](StackedWheel::Node& node) {
            auto& expiry = static_cast<SessionExpiry&>(node);
            due(expiry.session, next(expiry));
        },
        most, moves_a_call);
}

}  // namespace pulsegate
