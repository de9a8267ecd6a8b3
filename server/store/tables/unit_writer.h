#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/ledger/unit.h"
#include "server/store/tables/delayed_table.h"
#include "server/store/tables/event_table.h"
#include "server/store/tables/recent_drops.h"
#include "server/store/tables/waiting_index.h"

namespace pulsegate {

/// Writes operations to the tables, in a transaction that the caller has opened. It does not change
/// the index, which shows the committed state: changed cursors are kept here until the commit. It
/// has a prepared statement for each change of a table.
class UnitWriter {
public:
    UnitWriter(Database& database, const WaitingIndex& index, DelayedTable& delayed,
               EventTable& events, RecentDrops& drops);

    /// A transaction begins, possibly again.
    void begin();

    /// Writes the operations that are not `left_out`, in order. Check the database for errors.
    /// Returns the index of the last operation that was tried.
    std::size_t write(Unit& unit, const std::vector<std::size_t>& left_out);

    /// Writes the cursors and sums at the end of the transaction.
    void finish();
    void committed() {
        delayed_.committed();
        events_.committed();
        drops_.committed();
        if (dropped_rows_removed_) has_dropped_rows_ = false;
    }

    /// Returns false if some receivers are left, because there may be very many. Then call it
    /// again.
    bool remove_messages(const std::vector<Stamp>& stamps);

    /// Are there rows that only say that a retained message was dropped, and that the next
    /// transactions delete?
    bool removes_dropped_rows() const { return has_dropped_rows_ && dropped_rows_stay_ == 0; }
    /// The drops have aged, see `RecentDrops::caught_up`.
    void dropped_rows_age() {
        if (dropped_rows_stay_ > 0) --dropped_rows_stay_;
    }

    void put_meta(const char* key, std::uint64_t value) { put_meta_.run(key, value); }

    /// Bytes of bodies and receivers that were written since `begin`.
    std::size_t bytes() const { return bytes_; }

    /// The cursors after the transaction; nothing for an owner that has ended.
    using Cursors = boost::unordered_flat_map<OwnerId, std::optional<Cursor>>;
    Cursors& cursors() { return cursors_; }

private:
    void apply(const PutMessage& put);
    void apply(const PutReceiver& put);
    void apply(const Done& done);
    void apply(const PutOwner& put);
    void apply(const EndOwner& ended);
    void apply(const RetireOwner& retire);
    void apply(const PutSubscription& put);
    void apply(const MarkRetainedOwed& mark);
    void apply(const DropSubscription& drop);
    void apply(const PutSessionExpiry& put);
    void apply(const DropSessionExpiry& drop);
    void apply(const PutIncoming& put);
    void apply(const DropIncoming& drop);
    void apply(const PutExchange& put);
    void apply(const ReleaseExchange& release);
    void apply(const DropExchange& drop);
    void apply(const PutWill& put);
    void apply(const DropWill& drop);
    void apply(const PutRetained& put);
    void apply(const DropRetained& drop);
    void apply(const PutDelayed& put) { delayed_.put(put); }
    void apply(CancelDelayed& cancel) { delayed_.cancel(cancel); }
    void apply(const DropDelayed& drop) { delayed_.drop(drop); }
    void apply(const PutUser& put);
    void apply(const DropUser& drop);
    void apply(const PutBan& put);
    void apply(const DropBan& drop);
    void apply(const DropEndedBans& drop);
    void apply(const PutRevocation& put);
    void apply(const PutMember& put);
    void apply(const DropMember& drop);
    void apply(const PutRoomPosition& put);
    void apply(const DropRoomPosition& drop);
    void apply(const PutEvent& put);
    void apply(EventDelivered delivered) { events_.delivered(delivered); }
    void apply(const PutDeadLetter& put) { events_.put(put); }
    void apply(DropDeadLetters& drop) { events_.drop(drop); }
    void apply(ReplayDeadLetters& replay) { events_.replay(replay); }

    bool is_owner(OwnerId owner);
    void end_namesake(const PutOwner& put);
    Cursor* cursor(OwnerId owner);
    void await(OwnerId owner, Stamp stamp);
    void end(OwnerId owner);
    void put_receiver(Stamp stamp, const Receiver& receiver);
    void write_message(const PutMessage& put, const std::string& receivers);
    bool remove_dropped_rows();

    Database& database_;
    const WaitingIndex& index_;
    DelayedTable& delayed_;
    EventTable& events_;
    RecentDrops& drops_;
    Cursors cursors_;
    std::size_t bytes_ = 0;
    bool may_have_receivers_ = false;    ///< in separate rows, if these were ever needed here
    bool has_dropped_rows_ = false;      ///< of an earlier version, or because `drops_` was full
    unsigned dropped_rows_stay_ = 0;     ///< until the drops have aged so often
    bool dropped_rows_removed_ = false;  ///< all of them, by this transaction

    Statement add_message_;
    Statement put_receiver_;
    Statement remove_message_;
    Statement remove_receiver_;
    Statement remove_receivers_;
    Statement put_cursor_;
    Statement find_namesake_;
    Statement put_owner_;
    Statement retire_owner_;
    std::vector<std::unique_ptr<Statement>> end_owner_;
    std::vector<std::unique_ptr<Statement>> end_session_;  ///< statements that delete an owner's
                                                           ///< data besides messages
    Statement put_subscription_;
    Statement mark_retained_owed_;
    Statement drop_subscription_;
    Statement put_absence_;
    Statement drop_absence_;
    Statement put_incoming_;
    Statement drop_incoming_;
    Statement put_exchange_;
    Statement release_exchange_;
    Statement drop_exchange_;
    Statement put_will_;
    Statement drop_will_;
    Statement put_retained_;
    Statement drop_retained_;
    Statement find_dropped_rows_;
    Statement remove_dropped_row_;
    Statement put_user_;
    Statement drop_user_;
    Statement raise_version_floor_;
    Statement put_ban_;
    Statement drop_ban_;
    Statement drop_ended_bans_;
    Statement put_member_;
    Statement drop_member_;
    Statement put_away_;
    Statement drop_away_;
    Statement put_revocation_;
    Statement put_meta_;
};

}  // namespace pulsegate
