#include "server/store/tables/unit_writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "server/store/database/schema.h"
#include "server/store/rows/body.h"
#include "server/store/rows/row_codec.h"

namespace pulsegate {

namespace {

/// How many rows of receivers one transaction deletes. They are left by owners that ended before
/// they received their messages.
constexpr int most_receivers_removed = 4000;

/// How many bytes of rows without a message one transaction deletes. Such a row only says that a
/// retained message was dropped. 256 rows with short topics fit, or 5 rows with the longest topics.
constexpr std::size_t most_dropped_bytes = 256 * 1024;

/// The cost of deleting such a row. Even a short one may change several pages.
std::size_t dropped_cost(std::string_view topic) { return 1024 + topic.size(); }

}  // namespace

UnitWriter::UnitWriter(Database& database, const WaitingIndex& index, DelayedTable& delayed,
                       EventTable& events, RecentDrops& drops)
    : database_(database),
      index_(index),
      delayed_(delayed),
      events_(events),
      drops_(drops),
      add_message_(database, "INSERT OR IGNORE INTO message VALUES(?,?,?,?,?,?,?,?)"),
      put_receiver_(database, "INSERT OR REPLACE INTO receiver VALUES(?,?,?)"),
      remove_message_(database, "DELETE FROM message WHERE stamp = ?"),
      remove_receiver_(database, "DELETE FROM receiver WHERE stamp = ? AND owner = ?"),
      remove_receivers_(database,
                        "DELETE FROM receiver WHERE stamp = ?1 AND owner IN"
                        " (SELECT owner FROM receiver WHERE stamp = ?1 LIMIT ?2)"),
      put_cursor_(database, "INSERT OR REPLACE INTO cursor VALUES(?,?,?)"),
      find_namesake_(database,
                     "SELECT id FROM owner WHERE user = ? AND client = ? AND kind = ? AND id <> ?"),
      put_owner_(database,
                 "INSERT INTO owner VALUES(?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET"
                 " kind = excluded.kind, user = excluded.user, client = excluded.client,"
                 " expiry = excluded.expiry, protocol = excluded.protocol"),
      retire_owner_(database,
                    "UPDATE owner SET kind = ?2, user = '', client = CAST(id AS TEXT)"
                    " WHERE id = ?1"),
      put_subscription_(database,
                        "INSERT INTO subscription VALUES(?1,?2,?3,?4,?5) ON CONFLICT(owner, filter)"
                        " DO UPDATE SET options = ?3, identifier = ?4"),
      mark_retained_owed_(database,
                          "UPDATE subscription SET owed = ?3 WHERE owner = ?1 AND filter = ?2"),
      drop_subscription_(database, "DELETE FROM subscription WHERE owner = ? AND filter = ?"),
      put_absence_(database, "INSERT OR REPLACE INTO absence VALUES(?,?,?)"),
      drop_absence_(database, "DELETE FROM absence WHERE owner = ?"),
      put_incoming_(database, "INSERT OR REPLACE INTO incoming VALUES(?,?)"),
      drop_incoming_(database, "DELETE FROM incoming WHERE owner = ? AND packet_id = ?"),
      put_exchange_(database, "INSERT OR REPLACE INTO exchange VALUES(?,?,?,?)"),
      release_exchange_(database,
                        "UPDATE exchange SET released = 1 WHERE owner = ? AND packet_id = ?"),
      drop_exchange_(database, "DELETE FROM exchange WHERE owner = ? AND packet_id = ?"),
      put_will_(database, "INSERT OR REPLACE INTO will VALUES(?,?,?,?,?,?,?,?)"),
      drop_will_(database, "DELETE FROM will WHERE owner = ?"),
      // A row without payload says that the retained message was dropped. No message with an older
      // stamp replaces it.
      put_retained_(
          database,
          "INSERT INTO retained VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(topic) DO UPDATE SET"
          " stamp = excluded.stamp, expires = excluded.expires, flags = excluded.flags,"
          " publisher = excluded.publisher, checksum = excluded.checksum,"
          " properties = excluded.properties, payload = excluded.payload,"
          " sender = excluded.sender"
          " WHERE excluded.stamp > retained.stamp"),
      drop_retained_(database, "DELETE FROM retained WHERE topic = ? AND stamp < ?"),
      find_dropped_rows_(database,
                         "SELECT rowid, topic FROM retained WHERE payload IS NULL ORDER BY stamp"),
      remove_dropped_row_(database, "DELETE FROM retained WHERE rowid = ?"),
      put_user_(database,
                "INSERT INTO user VALUES(?1,?2,?3,?4,?5,coalesce(nullif(?6, ?7), 0))"
                " ON CONFLICT(name) DO UPDATE SET version = ?2, since = ?3, last_seen = ?4,"
                " cause = ?5, silence = coalesce(nullif(?6, ?7), silence)"),
      drop_user_(database, "DELETE FROM user WHERE name = ?"),
      raise_version_floor_(database,
                           "UPDATE meta SET value = max(value, coalesce("
                           "(SELECT version FROM user WHERE name = ?), 0))"
                           " WHERE key = 'version_floor'"),
      put_ban_(database, "INSERT OR REPLACE INTO ban VALUES(?,?,?,?,?)"),
      drop_ban_(database, "DELETE FROM ban WHERE user = ? AND client = ? AND address = ?"),
      drop_ended_bans_(database, "DELETE FROM ban WHERE ends > 0 AND ends <= ?"),
      put_member_(database, "INSERT OR IGNORE INTO member VALUES(?,?,?)"),
      drop_member_(database, "DELETE FROM member WHERE topic = ? AND user = ?"),
      put_away_(database, "INSERT OR REPLACE INTO away VALUES(?,?)"),
      drop_away_(database, "DELETE FROM away WHERE user = ?"),
      put_revocation_(database,
                      "INSERT INTO revocation VALUES(?,?) ON CONFLICT(user) DO UPDATE SET"
                      " issued_before = max(issued_before, excluded.issued_before)"),
      put_meta_(database, "INSERT OR REPLACE INTO meta VALUES(?,?)") {
    for (const char* sql : {"DELETE FROM owner WHERE id = ?", "DELETE FROM cursor WHERE owner = ?"})
        end_owner_.push_back(std::make_unique<Statement>(database, sql));
    for (const char* sql :
         {"DELETE FROM subscription WHERE owner = ?", "DELETE FROM absence WHERE owner = ?",
          "DELETE FROM incoming WHERE owner = ?", "DELETE FROM exchange WHERE owner = ?",
          "DELETE FROM will WHERE owner = ?"})
        end_session_.push_back(std::make_unique<Statement>(database, sql));
    Statement(database, "SELECT EXISTS(SELECT 1 FROM receiver)").each([&](const Row& row) {
        may_have_receivers_ = row.number(0) != 0;
    });
    Statement(database, "SELECT EXISTS(SELECT 1 FROM retained WHERE payload IS NULL)")
        .each([&](const Row& row) { has_dropped_rows_ = row.number(0) != 0; });
}

void UnitWriter::begin() {
    cursors_.clear();
    delayed_.begin();
    events_.begin();
    drops_.begin();
    bytes_ = 0;
}

std::size_t UnitWriter::write(Unit& unit, const std::vector<std::size_t>& left_out) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < unit.operations.size() && database_.ok(); ++i) {
        if (std::ranges::find(left_out, i) != left_out.end()) continue;
        std::visit([this](auto& what) { apply(what); }, unit.operations[i]);
        last = i;
    }
    return last;
}

void UnitWriter::finish() {
    delayed_.finish();
    events_.finish();
    std::vector<OwnerId> changed;
    for (const auto& [owner, cursor] : cursors_)
        if (cursor) changed.push_back(owner);
    std::sort(changed.begin(), changed.end());  // neighbours share pages
    for (const OwnerId owner : changed) {
        const Cursor& cursor = *cursors_.at(owner);
        if (cursor == index_.cursor(owner).value_or(Cursor())) continue;
        const CursorRow row = encode_cursor(cursor);
        put_cursor_.run(owner, row.upto, blob(row.beyond));
    }
    dropped_rows_removed_ = removes_dropped_rows() && remove_dropped_rows();
}

bool UnitWriter::remove_messages(const std::vector<Stamp>& stamps) {
    for (const Stamp stamp : stamps) remove_message_.run(stamp);
    if (!may_have_receivers_) return true;
    int room = most_receivers_removed;
    for (const Stamp stamp : stamps)
        if (room > 0) room -= remove_receivers_.run(stamp, room);
    return room > 0;
}

/// Deletes some of these rows. To delete many at once would delay all requests. Returns false if
/// some may be left.
bool UnitWriter::remove_dropped_rows() {
    std::size_t bytes = 0;
    std::vector<std::int64_t> rows;
    find_dropped_rows_.each([&](const Row& row) {
        rows.push_back(row.number(0));
        bytes += dropped_cost(row.view(1));
        return bytes < most_dropped_bytes;
    });
    for (const std::int64_t row : rows) remove_dropped_row_.run(row);
    return bytes < most_dropped_bytes;
}

bool UnitWriter::is_owner(OwnerId owner) {
    const auto found = cursors_.find(owner);
    return found == cursors_.end() ? index_.is_owner(owner) : found->second.has_value();
}

/// The owner's cursor, to be changed; null if there is no such owner.
Cursor* UnitWriter::cursor(OwnerId owner) {
    if (!is_owner(owner)) return nullptr;
    const auto found = cursors_.find(owner);
    if (found != cursors_.end()) return &*found->second;
    return &*cursors_.emplace(owner, *index_.cursor(owner)).first->second;
}

// Messages

void UnitWriter::apply(const PutMessage& put) {
    // One comparison for all members of a room: an owner is hardly ever done with a new message.
    const bool is_new = put.stamp > index_.latest_done() && cursors_.empty();
    if (!is_new)
        for (const Receiver& receiver : put.receivers) await(receiver.owner, put.stamp);
    write_message(put, encode_receivers(put.stamp, put.receivers));
}

/// Stamps grow, so an owner is hardly ever done with a new message. Exceptions are a message that
/// arrives late, an old retained message, and a message that comes back to a member of a shared
/// subscription. Without this, a start would treat such a message as done.
void UnitWriter::await(OwnerId owner, Stamp stamp) {
    const bool may_be_late = stamp <= index_.latest_done() || cursors_.contains(owner);
    Cursor* const late = may_be_late ? cursor(owner) : nullptr;
    if (late && late->has_done(stamp)) late->reopen(stamp);
}

/// Adds the receiver as a separate row, so that the message's row is not written again, however
/// many receivers are added.
void UnitWriter::put_receiver(Stamp stamp, const Receiver& receiver) {
    const std::string encoded = encode_receivers(stamp, {receiver});
    put_receiver_.run(stamp, receiver.owner, blob(encoded));
    may_have_receivers_ = true;
    bytes_ += encoded.size();
}

void UnitWriter::apply(const PutReceiver& put) {
    if (!is_owner(put.receiver.owner)) return;
    await(put.receiver.owner, put.stamp);
    put_receiver(put.stamp, put.receiver);
}

void UnitWriter::write_message(const PutMessage& put, const std::string& receivers) {
    const Message& message = *put.message;
    const int added = add_message_.run(put.stamp, put.expires, flags_column(put.flags, put.sender),
                                       blob(receivers), checksum_of(message), message.topic,
                                       blob(message.properties), blob(message.payload));
    if (added == 0 && database_.ok())
        for (const Receiver& receiver : put.receivers) put_receiver(put.stamp, receiver);
    bytes_ += receivers.size() + message.topic.size() + message.properties.size() +
              message.payload.size();
}

/// Deletes the owner's rows of added receivers together with the change of its cursor. If they
/// stayed until the message is deleted, one member that is absent for days would keep the rows of
/// all others.
void UnitWriter::apply(const Done& done) {
    Cursor* const changed = cursor(done.owner);
    if (!changed) return;
    changed->add(done);
    if (!may_have_receivers_) return;
    for (const Stamp stamp : done.beyond) remove_receiver_.run(stamp, done.owner);
}

// Owners

/// Ends an owner with the same name. A damaged table may have left one that no shard knows.
void UnitWriter::end_namesake(const PutOwner& put) {
    OwnerId found = 0;
    find_namesake_.each([&](const Row& row) { found = row.as<OwnerId>(0); }, put.user, put.client,
                        static_cast<int>(put.kind), put.owner);
    if (found == 0) return;
    spdlog::error("owner {} has the same name as owner {}, and is removed", found, put.owner);
    cursors_[found] = std::nullopt;
    end(found);
}

void UnitWriter::apply(const PutOwner& put) {
    if (!is_owner(put.owner)) {
        end_namesake(put);
        cursors_[put.owner] = Cursor{};
    }
    put_owner_.run(put.owner, static_cast<int>(put.kind), put.user, put.client, put.expiry,
                   put.protocol);
}

void UnitWriter::apply(const EndOwner& ended) {
    if (!is_owner(ended.owner)) return;
    cursors_[ended.owner] = std::nullopt;
    end(ended.owner);
}

void UnitWriter::end(OwnerId owner) {
    for (const auto& statement : end_owner_) statement->run(owner);
    for (const auto& statement : end_session_) statement->run(owner);
}

void UnitWriter::apply(const RetireOwner& retire) {
    if (!is_owner(retire.owner)) return;
    for (const auto& statement : end_session_) statement->run(retire.owner);
    retire_owner_.run(retire.owner, static_cast<int>(OwnerKind::retired));
}

void UnitWriter::apply(const PutSubscription& put) {
    if (is_owner(put.owner))
        put_subscription_.run(put.owner, put.filter, put.options, put.identifier, put.owed);
}

void UnitWriter::apply(const MarkRetainedOwed& mark) {
    mark_retained_owed_.run(mark.owner, mark.filter, mark.owed);
}

void UnitWriter::apply(const DropSubscription& drop) {
    drop_subscription_.run(drop.owner, drop.filter);
}

void UnitWriter::apply(const PutSessionExpiry& put) {
    if (is_owner(put.owner)) put_absence_.run(put.owner, put.ends, put.position);
}

void UnitWriter::apply(const DropSessionExpiry& drop) { drop_absence_.run(drop.owner); }

void UnitWriter::apply(const PutIncoming& put) {
    if (is_owner(put.owner)) put_incoming_.run(put.owner, put.packet_id);
}

void UnitWriter::apply(const DropIncoming& drop) { drop_incoming_.run(drop.owner, drop.packet_id); }

void UnitWriter::apply(const PutExchange& put) {
    if (!is_owner(put.owner)) return;
    const auto state =
        put.qos == QoS::exactly_once ? ExchangeState::at_qos_2 : ExchangeState::at_qos_1;
    put_exchange_.run(put.owner, put.packet_id, put.stamp, static_cast<int>(state));
}

void UnitWriter::apply(const ReleaseExchange& release) {
    release_exchange_.run(release.owner, release.packet_id);
}

void UnitWriter::apply(const DropExchange& drop) { drop_exchange_.run(drop.owner, drop.packet_id); }

void UnitWriter::apply(const PutWill& put) {
    if (!is_owner(put.owner)) return;
    const Message& message = *put.message;
    constexpr std::int64_t never = -1;
    put_will_.run(put.owner, put.delay,
                  put.message_expiry ? std::int64_t{*put.message_expiry} : never, put.flags,
                  checksum_of(message), message.topic, blob(message.properties),
                  blob(message.payload));
}

void UnitWriter::apply(const DropWill& drop) { drop_will_.run(drop.owner); }

// What belongs to no owner

void UnitWriter::apply(const PutRetained& put) {
    const Message& message = *put.message;
    if (drops_.is_dropped(message.topic, put.stamp)) return;
    put_retained_.run(message.topic, put.stamp, put.expires, put.flags, put.publisher,
                      checksum_of(message), blob(message.properties), blob(message.payload),
                      put.sender);
}

/// Deletes the row of the topic. If there are too many drops to remember while a shard stands
/// still, a row without payload remembers this one.
void UnitWriter::apply(const DropRetained& drop) {
    if (drops_.add(drop.topic, drop.stamp)) {
        drop_retained_.run(drop.topic, drop.stamp);
        return;
    }
    put_retained_.run(drop.topic, drop.stamp, 0, 0, 0, 0, Blob{}, Blob{}, 0);
    has_dropped_rows_ = true;
    dropped_rows_stay_ = 2;
}

void UnitWriter::apply(const PutUser& put) {
    put_user_.run(put.name, put.version, put.since, put.last_seen, put.cause, put.limit,
                  std::uint32_t{PutUser::limit_as_stored});
}

/// Raises the floor of versions, because versions may be ahead of the clock. If the user comes back
/// after the next start, the new version must be higher.
void UnitWriter::apply(const DropUser& drop) {
    raise_version_floor_.run(drop.name);
    drop_user_.run(drop.name);
}

void UnitWriter::apply(const PutBan& put) {
    put_ban_.run(put.user, put.client, put.address, put.ends, put.reason);
}

void UnitWriter::apply(const DropBan& drop) { drop_ban_.run(drop.user, drop.client, drop.address); }

void UnitWriter::apply(const DropEndedBans& drop) { drop_ended_bans_.run(drop.by); }

void UnitWriter::apply(const PutRevocation& put) { put_revocation_.run(put.user, put.before); }

void UnitWriter::apply(const PutMember& put) { put_member_.run(put.topic, put.user, put.since); }

void UnitWriter::apply(const DropMember& drop) { drop_member_.run(drop.topic, drop.user); }

void UnitWriter::apply(const PutRoomPosition& put) { put_away_.run(put.user, put.position); }

void UnitWriter::apply(const DropRoomPosition& drop) { drop_away_.run(drop.user); }

void UnitWriter::apply(const PutEvent& put) {
    events_.put(put);
    bytes_ += put.body.size();
}

}  // namespace pulsegate
