#include "server/store/database/schema.h"

#include <fmt/format.h>

#include <iterator>

namespace pulsegate {

namespace {

// Never change a step that was released; append another one. The large columns are last in a table,
// because SQLite reads a row's overflow pages up to the last column that a query needs.
constexpr const char* steps[] = {
    R"(CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
       CREATE TABLE message(stamp INTEGER PRIMARY KEY, expires INTEGER, flags INTEGER,
           receivers BLOB, checksum INTEGER, topic TEXT, properties BLOB, payload BLOB);
       CREATE TABLE cursor(owner INTEGER PRIMARY KEY, upto INTEGER, beyond BLOB);
       CREATE TABLE owner(id INTEGER PRIMARY KEY, kind INTEGER, user TEXT, client TEXT,
           expiry INTEGER, protocol INTEGER, UNIQUE(user, client, kind));
       CREATE TABLE subscription(owner INTEGER, filter TEXT, options INTEGER, identifier INTEGER,
           owed INTEGER, PRIMARY KEY(owner, filter)) WITHOUT ROWID;
       CREATE TABLE absence(owner INTEGER PRIMARY KEY, ends INTEGER);
       CREATE TABLE incoming(owner INTEGER, packet_id INTEGER,
           PRIMARY KEY(owner, packet_id)) WITHOUT ROWID;
       CREATE TABLE exchange(owner INTEGER, packet_id INTEGER, stamp INTEGER, released INTEGER,
           PRIMARY KEY(owner, packet_id)) WITHOUT ROWID;
       CREATE TABLE will(owner INTEGER PRIMARY KEY, delay INTEGER, message_expiry INTEGER,
           flags INTEGER, checksum INTEGER, topic TEXT, properties BLOB, payload BLOB);
       CREATE TABLE retained(topic TEXT PRIMARY KEY, stamp INTEGER, expires INTEGER, flags INTEGER,
           publisher INTEGER, checksum INTEGER, properties BLOB, payload BLOB);
       CREATE INDEX retained_dropped ON retained(stamp) WHERE payload IS NULL;
       CREATE TABLE delayed(id INTEGER PRIMARY KEY, flags INTEGER, user TEXT, name TEXT,
           checksum INTEGER, topic TEXT, properties BLOB, payload BLOB);
       CREATE UNIQUE INDEX delayed_name ON delayed(user, name) WHERE name IS NOT NULL;
       CREATE TABLE user(name TEXT PRIMARY KEY, version INTEGER, since INTEGER,
           last_seen INTEGER, cause INTEGER) WITHOUT ROWID;)",
    // No version wrote to the first table of delayed messages.
    R"(DROP TABLE delayed;
       CREATE TABLE delayed(id INTEGER PRIMARY KEY, flags INTEGER, message_expiry INTEGER,
           user TEXT, name TEXT, bytes INTEGER, checksum INTEGER, topic TEXT, properties BLOB,
           payload BLOB);
       CREATE UNIQUE INDEX delayed_name ON delayed(user, name) WHERE name IS NOT NULL;
       CREATE INDEX delayed_user ON delayed(user);
       CREATE TABLE delayed_sum(user TEXT PRIMARY KEY, messages INTEGER, bytes INTEGER)
           WITHOUT ROWID;)",
    R"(ALTER TABLE retained ADD COLUMN sender INTEGER NOT NULL DEFAULT 0;)",
    R"(CREATE TABLE ban(user TEXT, client TEXT, address TEXT, ends INTEGER, reason TEXT,
           PRIMARY KEY(user, client, address)) WITHOUT ROWID;
       CREATE INDEX ban_ends ON ban(ends) WHERE ends > 0;
       CREATE TABLE revocation(user TEXT PRIMARY KEY, issued_before INTEGER) WITHOUT ROWID;)",
    R"(CREATE TABLE member(topic TEXT, user TEXT, PRIMARY KEY(topic, user)) WITHOUT ROWID;)",
    R"(CREATE TABLE event(number INTEGER PRIMARY KEY, kind INTEGER, total INTEGER,
           checksum INTEGER, body TEXT);
       CREATE TABLE dead_letter(number INTEGER PRIMARY KEY, kind INTEGER, failed INTEGER,
           to_replay INTEGER, checksum INTEGER, why TEXT, body TEXT);)",
    R"(CREATE TABLE receiver(stamp INTEGER, owner INTEGER, receivers BLOB,
           PRIMARY KEY(stamp, owner)) WITHOUT ROWID;
       ALTER TABLE member ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE absence ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
       CREATE TABLE away(user TEXT PRIMARY KEY, place INTEGER) WITHOUT ROWID;)",
    // A receiver may have a shared subscription, which older versions can't read.
    "",
    // Pages have checksums, which older versions would not update.
    "",
    R"(ALTER TABLE user ADD COLUMN silence INTEGER NOT NULL DEFAULT 0;)",
};

}  // namespace

int newest_schema() { return static_cast<int>(std::size(steps)); }

void migrate(Database& database, int version, int to) {
    if (version == to) return;
    database.run("BEGIN IMMEDIATE");
    for (; version < to; ++version) database.run(steps[version]);
    database.run(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", application_id, version)
            .c_str());
    database.run("COMMIT");
    if (!database.ok()) database.roll_back();
}

}  // namespace pulsegate
