#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/base/hash.h"
#include "server/store/database/database.h"
#include "server/store/files/store_folder.h"
#include "server/store/files/store_mark.h"
#include "server/store/ledger/fsync.h"
#include "server/store/ledger/unit.h"
#include "server/store/mirror/mirror.h"

namespace pulsegate {

/// A database that is ready for use, and the content of its `meta` table.
struct OpenStore {
    std::unique_ptr<Database> database;
    Stamp floor = 0;                  ///< no earlier stamp was larger
    Stamp new_floor = 0;              ///< the floor that the next start will find
    std::uint64_t version_floor = 0;  ///< no earlier version of a user's presence was larger
    HashKey key{};                    ///< a random secret of this database
    StoreMark mark{};
    std::optional<StoreDamage> damage{};  ///< damage that this start or an earlier one has found
};

/// Opens or creates `folder`/pulsegate.db ("": a database in memory), checks it if it was not
/// closed in order (`was_closed`: it was, whatever it says), and migrates it. Afterwards, all its
/// visible data is on disk. A damaged database is replaced by a new one with all readable data, and
/// the losses are logged. Throws std::runtime_error with one line that says what to do.
OpenStore open_store(const std::string& folder, Fsync fsync, const char* vfs,
                     bool was_closed = false);

/// The same in memory: the database is filled from its mirror, which follows its changes from now
/// on. While the row store does not answer, it waits, for this time. Throws std::runtime_error.
OpenStore open_mirrored(Mirror& mirror, std::chrono::milliseconds patience);

/// Makes the next start salvage the database in any case, because a check may not find damage that
/// a write has met.
void mark_damaged(const std::string& folder, const std::string& why);

/// Call it after the load. Before, the cache is small, because a start reads each page once.
void enlarge_cache(Database& database, std::size_t bytes);

/// The distance of the floor above the highest stamp: a minute.
inline constexpr Stamp floor_ahead = stamp_at(60'000);

}  // namespace pulsegate
