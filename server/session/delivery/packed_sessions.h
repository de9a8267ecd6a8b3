#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <optional>
#include <string_view>

#include "server/base/hash.h"
#include "server/base/memory/sparse.h"
#include "server/base/owner_thread.h"
#include "server/routing/interest.h"
#include "server/routing/router.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/receipts.h"
#include "server/session/durable/shard_context.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/settings.h"
#include "server/session/users/presence.h"
#include "server/session/users/presence_entry.h"

namespace pulsegate {

/// Packs a user without other state than one disconnected session, a minute after its client has
/// left. Unpacks the user when it is needed: by name, for a message that it has subscribed to, or
/// because the session is about to end. Only the use of memory differs. It belongs to the shard's
/// thread.
///
/// No other object may refer to a packed session: see `may_pack`.
class PackedSessions {
public:
    PackedSessions(const ShardContext& context, const Tables& tables, const Rooms& rooms,
                   PacketSender& packets);

    /// Unpacks the sessions that have subscribed to the topic.
    void unpack_subscriber(std::string_view topic) {
        if (by_filter_.empty()) return;
        const auto found = by_filter_.find(topic);
        if (found != by_filter_.end()) unpack(**found);
    }
    Session& session_of(Absence& absence);

    /// Call it once a second: looks at the next sixtieth of all users, and packs and unpacks some
    /// of them. Users with sessions that end now are unpacked afterwards. `may_pack`: no message is
    /// being delivered to disconnected sessions.
    void sweep(Tick now, bool may_pack);
    /// Packs all sessions that can be packed.
    void pack_all(Tick now);

    void reserve(std::size_t filters) { by_filter_.reserve(filters); }
    /// Call it once a second.
    void shrink() { shrink_if_sparse(by_filter_); }
    /// May a session of before the restart be restored as a record, with these texts?
    bool may_restore(const PackedRecord::Texts& texts, Tick ends, Tick now) const;
    /// Adds a restored record. Everything about it is known, except the user's presence.
    void restore(PackedRecord& record, Tick now);

    std::size_t subscriptions() const { return by_filter_.size(); }

private:
    struct Hash {
        using is_transparent = void;
        using is_avalanching = void;
        std::size_t operator()(std::string_view filter) const { return keyed_hash(filter); }
        std::size_t operator()(const PackedRecord* record) const {
            return (*this)(record->filter());
        }
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const PackedRecord* a, const PackedRecord* b) const { return a == b; }
        bool operator()(std::string_view filter, const PackedRecord* record) const {
            return record->filter() == filter;
        }
        bool operator()(const PackedRecord* record, std::string_view filter) const {
            return record->filter() == filter;
        }
    };

    User& unpack(PackedRecord& record);
    void pack_or_unpack(PresenceEntry& entry, Tick now, bool may_pack);
    void pack_if_idle(User& user, Tick now);
    bool may_pack(const Session& session, Tick now) const;
    bool is_in_store(const Session& session) const;
    void pack(Session& session);
    void enter(PackedRecord& record);
    void leave(PackedRecord& record);

    Interest& interest_;
    Presence& presence_;
    SessionTable& sessions_;
    Router& router_;
    const Rooms& rooms_;
    Outbox::Totals& waiting_;
    const Journal& journal_;
    const Receipts& receipts_;
    const Tick away_for_;    ///< how long a session is away before it is packed
    const Tick look_ahead_;  ///< duration of two sweeps

    /// The records that have a subscription.
    boost::unordered_flat_set<PackedRecord*, Hash, Equal> by_filter_;

    /// One pass over all users.
    struct Sweep {
        PresencePosition done{};
        PresencePosition end{};  ///< position of the last user when the sweep began; users that
                                 ///< change later are unpacked already
        Tick until = 0;          ///< users with sessions that end until then are unpacked
    };
    std::optional<Sweep> sweep_;
    Tick all_last_until_ = 0;  ///< no packed session ends before this tick
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
