#pragma once

#include "server/store/database.h"

namespace pulsegate {

/// "PGAT": says in the file's header whose database it is.
inline constexpr int application_id = 0x50474154;

/// Since this version the pages have checksums.
inline constexpr int first_with_checksums = 9;

/// The version of the tables that this program reads and writes.
int newest_schema();

/// Brings the tables from `version` to the newest one; 0 is an empty database. Each step is a
/// transaction of its own, so that it may be interrupted anywhere.
void migrate(Database& database, int version);

/// In the table of exchanges, in the column `released`.
enum class ExchangeState : int { at_qos_2, released, at_qos_1 };

struct Table {
    const char* name;
    const char* scan_key;  ///< its rows lie in this order
    bool has_owner;        ///< its rows belong to the owner in the column of that name
};
inline constexpr Table tables[] = {
    {"meta", "key", false},          {"owner", "rowid", false},       {"cursor", "rowid", true},
    {"subscription", "owner", true}, {"absence", "rowid", true},      {"incoming", "owner", true},
    {"exchange", "owner", true},     {"will", "rowid", true},         {"message", "rowid", false},
    {"retained", "rowid", false},    {"delayed", "rowid", false},     {"user", "name", false},
    {"ban", "user", false},          {"revocation", "user", false},   {"member", "topic", false},
    {"event", "rowid", false},       {"dead_letter", "rowid", false}, {"receiver", "stamp", true},
    {"away", "user", false},
};

}  // namespace pulsegate
