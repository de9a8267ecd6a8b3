#pragma once

#include "server/store/database/database.h"

namespace pulsegate {

/// "PGAT": marks the database as Pulsegate's in the file's header.
inline constexpr int application_id = 0x50474154;

/// Pages have checksums since this version.
inline constexpr int first_with_checksums = 9;

/// The version of the tables that this program reads and writes.
int newest_schema();

/// Migrates the tables from `version` to another version, in one transaction; 0 is an empty
/// database.
void migrate(Database& database, int version, int to = newest_schema());

/// The values of the column `released` in the table of exchanges.
enum class ExchangeState : int { at_qos_2, released, at_qos_1 };

struct Table {
    const char* name;
    bool has_rowid;     ///< otherwise its rows are in the order of its first columns, the primary
                        ///< key
    bool has_owner;     ///< its rows belong to the owner in the column of that name
    bool has_checksum;  ///< each row has a checksum that shows damage
};
inline constexpr Table tables[] = {
    {"meta", false, false, false},      {"owner", true, false, false},
    {"cursor", true, true, false},      {"subscription", false, true, false},
    {"absence", true, true, false},     {"incoming", false, true, false},
    {"exchange", false, true, false},   {"will", true, true, true},
    {"message", true, false, true},     {"retained", true, false, true},
    {"delayed", true, false, true},     {"user", false, false, false},
    {"ban", false, false, false},       {"revocation", false, false, false},
    {"member", false, false, false},    {"event", true, false, true},
    {"dead_letter", true, false, true}, {"receiver", false, true, true},
    {"away", false, false, false},
};

}  // namespace pulsegate
