-- The database of version 8 after Pulsegate 0.1 has migrated it. Its pages have checksums.
PRAGMA application_id = 0x50474154;
PRAGMA user_version = 9;
CREATE TABLE absence(owner INTEGER PRIMARY KEY, ends INTEGER, place INTEGER NOT NULL DEFAULT 0);
INSERT INTO "absence" VALUES(1,1795992503590,0);
INSERT INTO "absence" VALUES(2,1795992503602,0);
INSERT INTO "absence" VALUES(3,1795992503615,0);
CREATE TABLE away(user TEXT PRIMARY KEY, place INTEGER) WITHOUT ROWID;
INSERT INTO "away" VALUES('ann',0);
INSERT INTO "away" VALUES('bob',0);
CREATE TABLE ban(user TEXT, client TEXT, address TEXT, ends INTEGER, reason TEXT,
           PRIMARY KEY(user, client, address)) WITHOUT ROWID;
INSERT INTO "ban" VALUES('eve','','',0,'spam');
CREATE TABLE cursor(owner INTEGER PRIMARY KEY, upto INTEGER, beyond BLOB);
CREATE TABLE dead_letter(number INTEGER PRIMARY KEY, kind INTEGER, failed INTEGER,
           to_replay INTEGER, checksum INTEGER, why TEXT, body TEXT);
CREATE TABLE delayed(id INTEGER PRIMARY KEY, flags INTEGER, message_expiry INTEGER,
           user TEXT, name TEXT, bytes INTEGER, checksum INTEGER, topic TEXT, properties BLOB,
           payload BLOB);
INSERT INTO "delayed" VALUES(4066165798207488001,1,-1,'eve',NULL,92,986622568,'inbox/ann',X'',X'696E2074686520796561722032303330');
INSERT INTO "delayed" VALUES(4066165800354971650,1,-1,'eve','later',114,223154672,'room/lobby',X'26000864656C61792D696400056C61746572',X'61207365636F6E64206C61746572');
CREATE TABLE delayed_sum(user TEXT PRIMARY KEY, messages INTEGER, bytes INTEGER)
           WITHOUT ROWID;
INSERT INTO "delayed_sum" VALUES('eve',2,206);
CREATE TABLE event(number INTEGER PRIMARY KEY, kind INTEGER, total INTEGER,
           checksum INTEGER, body TEXT);
CREATE TABLE exchange(owner INTEGER, packet_id INTEGER, stamp INTEGER, released INTEGER,
           PRIMARY KEY(owner, packet_id)) WITHOUT ROWID;
CREATE TABLE incoming(owner INTEGER, packet_id INTEGER,
           PRIMARY KEY(owner, packet_id)) WITHOUT ROWID;
CREATE TABLE member(topic TEXT, user TEXT, since INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(topic, user)) WITHOUT ROWID;
INSERT INTO "member" VALUES('room/lobby','ann',1882789902674821120);
INSERT INTO "member" VALUES('room/lobby','bob',0);
CREATE TABLE message(stamp INTEGER PRIMARY KEY, expires INTEGER, flags INTEGER,
           receivers BLOB, checksum INTEGER, topic TEXT, properties BLOB, payload BLOB);
INSERT INTO "message" VALUES(1882600456713142272,0,2,X'4E6DDEFF01010102',3627949308,'room/lobby',X'',X'68656C6C6F2066726F6D2076657273696F6E2031');
INSERT INTO "message" VALUES(1882600456720482304,0,1,X'E893CF6C0101',4197726135,'inbox/ann',X'03000A746578742F706C61696E',X'746F20796F757220696E626F78');
INSERT INTO "message" VALUES(1882600456728870912,0,1,X'B125AC280301',3567362128,'jobs/1',X'',X'61206A6F62');
INSERT INTO "message" VALUES(1882600456737259520,0,1,X'3297F42E0101',2856217373,'news',X'',X'72657461696E6564206E657773');
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
INSERT INTO "meta" VALUES('clean',1);
INSERT INTO "meta" VALUES('delayed',2);
INSERT INTO "meta" VALUES('event_log',1755873655152082124);
INSERT INTO "meta" VALUES('floor',1882843877237325824);
INSERT INTO "meta" VALUES('key_high',494393914773426039);
INSERT INTO "meta" VALUES('key_low',-6732539232829115481);
CREATE TABLE owner(id INTEGER PRIMARY KEY, kind INTEGER, user TEXT, client TEXT,
           expiry INTEGER, protocol INTEGER, UNIQUE(user, client, kind));
INSERT INTO "owner" VALUES(1,0,'ann','phone',604800,5);
INSERT INTO "owner" VALUES(2,0,'bob','laptop',604800,5);
INSERT INTO "owner" VALUES(3,0,'carl','w1',604800,5);
CREATE TABLE receiver(stamp INTEGER, owner INTEGER, receivers BLOB,
           PRIMARY KEY(stamp, owner)) WITHOUT ROWID;
CREATE TABLE retained(topic TEXT PRIMARY KEY, stamp INTEGER, expires INTEGER, flags INTEGER,
           publisher INTEGER, checksum INTEGER, properties BLOB, payload BLOB, sender INTEGER NOT NULL DEFAULT 0);
INSERT INTO "retained" VALUES('news',1882600456737259520,0,1,0,2856217373,X'',X'72657461696E6564206E657773',0);
CREATE TABLE revocation(user TEXT PRIMARY KEY, issued_before INTEGER) WITHOUT ROWID;
INSERT INTO "revocation" VALUES('bob',1795387703);
CREATE TABLE subscription(owner INTEGER, filter TEXT, options INTEGER, identifier INTEGER,
           owed INTEGER, PRIMARY KEY(owner, filter)) WITHOUT ROWID;
INSERT INTO "subscription" VALUES(1,'news',1,0,0);
INSERT INTO "subscription" VALUES(1,'room/#',1,0,0);
INSERT INTO "subscription" VALUES(2,'room/lobby',2,0,0);
INSERT INTO "subscription" VALUES(3,'$share/workers/jobs/+',1,0,0);
CREATE TABLE user(name TEXT PRIMARY KEY, version INTEGER, since INTEGER,
           last_seen INTEGER, cause INTEGER) WITHOUT ROWID;
INSERT INTO "user" VALUES('ann',1795387703590,1795387703590,1795387703590,1);
INSERT INTO "user" VALUES('bob',1795387703602,1795387703602,1795387703602,1);
INSERT INTO "user" VALUES('carl',1795387703615,1795387703615,1795387703615,1);
CREATE TABLE will(owner INTEGER PRIMARY KEY, delay INTEGER, message_expiry INTEGER,
           flags INTEGER, checksum INTEGER, topic TEXT, properties BLOB, payload BLOB);
CREATE UNIQUE INDEX delayed_name ON delayed(user, name) WHERE name IS NOT NULL;
CREATE INDEX delayed_user ON delayed(user);
CREATE INDEX retained_dropped ON retained(stamp) WHERE payload IS NULL;
CREATE INDEX ban_ends ON ban(ends) WHERE ends > 0;
