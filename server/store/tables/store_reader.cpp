#include "server/store/tables/store_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/store/database/schema.h"
#include "server/store/rows/body.h"
#include "server/store/rows/row_codec.h"

namespace pulsegate {

namespace {

PutOwner read_owner(const Row& row) {
    return {.owner = row.as<OwnerId>(0),
            .kind = row.as<OwnerKind>(1),
            .user = row.text(2),
            .client = row.text(3),
            .expiry = row.as<std::uint32_t>(4),
            .protocol = row.as<std::uint8_t>(5)};
}

/// Loads all tables in one pass.
class Loading {
public:
    Loading(Database& database, WaitingIndex& index, Ledger::Visitor& visitor,
            const std::function<void()>& meanwhile)
        : database_(database), index_(index), visitor_(visitor), meanwhile_(meanwhile) {}

    OwnerRange unused_owners() const { return owners_.unused(); }

    /// Tables that grow step by step are filled several times.
    void counts() {
        const StoredCounts counts{count("SELECT count(*) FROM owner"),
                                  count("SELECT count(*) FROM subscription"),
                                  count("SELECT count(*) FROM user")};
        index_.reserve(counts.owners);
        visitor_.expect(counts);
    }

    void owners() {
        each(
            "SELECT id, kind, user, client, expiry, protocol, upto, beyond"
            " FROM owner LEFT JOIN cursor ON owner = id ORDER BY id",
            [&](const Row& row) {
                owners_.note(row.as<OwnerId>(0));
                index_.add_owner(row.as<OwnerId>(0), decode_cursor(row.bits(6), row.view(7)));
                visitor_.owner(read_owner(row));
            });
    }

    void subscriptions() {
        each("SELECT owner, filter, options, identifier, owed FROM subscription",
             [&](const Row& row) {
                 owners_.note(row.as<OwnerId>(0));
                 visitor_.subscription({.owner = row.as<OwnerId>(0),
                                        .filter = row.text(1),
                                        .options = row.as<std::uint8_t>(2),
                                        .identifier = row.as<std::uint32_t>(3),
                                        .owed = row.number(4) != 0});
             });
    }

    void absences() {
        each("SELECT owner, ends, place FROM absence", [&](const Row& row) {
            owners_.note(row.as<OwnerId>(0));
            visitor_.session_expiry(
                {.owner = row.as<OwnerId>(0), .ends = row.number(1), .position = row.bits(2)});
        });
    }

    void exchanges() {
        each("SELECT owner, packet_id FROM incoming", [&](const Row& row) {
            owners_.note(row.as<OwnerId>(0));
            visitor_.incoming({.owner = row.as<OwnerId>(0), .packet_id = row.as<std::uint16_t>(1)});
        });
        each("SELECT owner, packet_id, stamp, released FROM exchange", [&](const Row& row) {
            owners_.note(row.as<OwnerId>(0));
            const auto state = row.as<ExchangeState>(3);
            const bool is_once = state != ExchangeState::at_qos_1;
            visitor_.exchange({.owner = row.as<OwnerId>(0),
                               .packet_id = row.as<std::uint16_t>(1),
                               .stamp = row.bits(2),
                               .qos = is_once ? QoS::exactly_once : QoS::at_least_once},
                              state == ExchangeState::released);
        });
    }

    void wills() {
        each(
            "SELECT owner, delay, message_expiry, flags, checksum, topic, properties, payload"
            " FROM will",
            [&](const Row& row) {
                owners_.note(row.as<OwnerId>(0));
                PutWill will{.owner = row.as<OwnerId>(0),
                             .delay = row.as<std::uint32_t>(1),
                             .flags = row.as<std::uint32_t>(3),
                             .message = read_body(row, 4)};
                if (row.number(2) >= 0) will.message_expiry = row.as<std::uint32_t>(2);
                if (!will.message) return note_damaged(database_, "will", row.number(0));
                visitor_.will(will);
            });
    }

    void receivers() {
        each_stamp("SELECT stamp, receivers FROM receiver", [&](const Row& row) {
            const auto receivers = decode_receivers(row.bits(0), row.view(1));
            if (!receivers) return note_damaged(database_, "receiver", row.number(0));
            for (const Receiver& receiver : *receivers) added_.push_back({row.bits(0), receiver});
        });
    }

    void messages() {
        each_stamp(
            "SELECT stamp, expires, flags, receivers, length(properties) + length(payload)"
            " FROM message",
            [&](const Row& row) { message(row); });
        take_added(std::numeric_limits<Stamp>::max());
    }

    void retained() {
        each(
            "SELECT stamp, expires, flags, publisher, checksum, topic, properties, payload, sender"
            " FROM retained WHERE payload IS NOT NULL",
            [&](const Row& row) {
                PutRetained put{.stamp = row.bits(0),
                                .expires = row.number(1),
                                .flags = row.as<std::uint32_t>(2),
                                .publisher = row.bits(3),
                                .sender = row.bits(8),
                                .message = read_body(row, 4, row.bits(0))};
                if (!put.message) return note_damaged(database_, "retained", row.number(0));
                visitor_.retained(put);
            });
    }

    void users() {
        each("SELECT name, version, since, last_seen, cause, silence FROM user",
             [&](const Row& row) {
                 visitor_.user({.name = row.text(0),
                                .version = row.bits(1),
                                .since = row.number(2),
                                .last_seen = row.number(3),
                                .cause = row.as<std::uint8_t>(4),
                                .limit = row.as<std::uint32_t>(5)});
             });
    }

    void bans() {
        each("SELECT user, client, address, ends, reason FROM ban", [&](const Row& row) {
            visitor_.ban({.user = row.text(0),
                          .client = row.text(1),
                          .address = row.text(2),
                          .ends = row.number(3),
                          .reason = row.text(4)});
        });
    }

    void members() {
        each("SELECT topic, user, since FROM member", [&](const Row& row) {
            visitor_.member({.topic = row.text(0), .user = row.text(1), .since = row.bits(2)});
        });
        each("SELECT user, place FROM away", [&](const Row& row) {
            visitor_.room_position({.user = row.text(0), .position = row.bits(1)});
        });
    }

    void revocations() {
        each("SELECT user, issued_before FROM revocation", [&](const Row& row) {
            visitor_.revocation({.user = row.text(0), .before = row.number(1)});
        });
    }

private:
    template <class Visit, class... Values>
    void each(const char* sql, Visit visit, const Values&... values) {
        Statement(database_, sql)
            .each(
                [&](const Row& row) {
                    visit(row);
                    if (++rows_ % 1000 == 0) meanwhile_();
                },
                values...);
    }

    /// Visits rows in order of stamp. Stamps from a clock before 1970 or after 2248 are negative in
    /// SQLite, but they are the largest ones.
    template <class Visit>
    void each_stamp(const std::string& sql, Visit visit) {
        each((sql + " WHERE stamp >= 0 ORDER BY stamp").c_str(), visit);
        each((sql + " WHERE stamp < 0 ORDER BY stamp").c_str(), visit);
    }

    std::size_t count(const char* sql) {
        std::size_t found = 0;
        each(sql, [&](const Row& row) { found = row.as<std::size_t>(0); });
        return found;
    }

    void message(const Row& row) {
        const WaitingMessage message{.stamp = row.bits(0),
                                     .expires = row.number(1),
                                     .flags = flags_in(row.bits(2)),
                                     .sender = sender_in(row.bits(2)),
                                     .bytes = row.as<std::size_t>(4)};
        const auto first = decode_receivers(message.stamp, row.view(3));
        if (!first) note_damaged(database_, "message", row.number(0));
        const auto receivers =
            merge_receivers(first.value_or(std::vector<Receiver>()), take_added(message.stamp));
        std::vector<Receiver> waiting;
        for (const Receiver& receiver : receivers) {
            owners_.note(receiver.owner);  // it may have ended
            if (!index_.is_due(receiver.owner, message.stamp)) continue;
            visitor_.waiting(message, receiver);
            waiting.push_back(receiver);
        }
        index_.add_message(message.stamp, waiting);
    }

    /// Takes the receivers that were added to the message later. Entries of earlier messages that
    /// are not stored are marked for deletion.
    std::vector<Receiver> take_added(Stamp stamp) {
        for (; next_added_ < added_.size() && added_[next_added_].first < stamp; ++next_added_)
            index_.add_message(added_[next_added_].first, {});
        std::vector<Receiver> receivers;
        for (; next_added_ < added_.size() && added_[next_added_].first == stamp; ++next_added_)
            receivers.push_back(std::move(added_[next_added_].second));
        return receivers;
    }

    Database& database_;
    WaitingIndex& index_;
    Ledger::Visitor& visitor_;
    const std::function<void()>& meanwhile_;
    std::size_t rows_ = 0;
    UsedOwners owners_;
    std::vector<std::pair<Stamp, Receiver>> added_;  ///< ascending
    std::size_t next_added_ = 0;
};

}  // namespace

OwnerRange load_all(Database& database, WaitingIndex& index, Ledger::Visitor& visitor,
                    const std::function<void()>& meanwhile) {
    Loading loading(database, index, visitor, meanwhile);
    loading.counts();
    loading.owners();
    loading.subscriptions();
    loading.absences();
    loading.exchanges();
    loading.wills();
    loading.receivers();
    loading.messages();
    loading.retained();
    loading.users();
    loading.bans();
    loading.revocations();
    loading.members();
    return loading.unused_owners();
}

StoreReader::StoreReader(Database& database)
    : database_(database),
      find_message_(database,
                    "SELECT stamp, expires, flags, checksum, topic, properties, payload"
                    " FROM message WHERE stamp = ?") {}

std::vector<StoredMessage> StoreReader::messages(const std::vector<Stamp>& stamps) {
    std::vector<StoredMessage> found;
    for (const Stamp stamp : stamps)
        find_message_.each(
            [&](const Row& row) {
                MessageRef message = read_body(row, 3, stamp);
                if (!message) return note_damaged(database_, "message", row.number(0));
                found.push_back({.stamp = stamp,
                                 .expires = row.number(1),
                                 .flags = flags_in(row.bits(2)),
                                 .sender = sender_in(row.bits(2)),
                                 .message = std::move(message)});
            },
            stamp);
    return found;
}

}  // namespace pulsegate
