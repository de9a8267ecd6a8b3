#pragma once

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

/// A database that is ready for use, and what its `meta` table said.
struct OpenStore {
    std::unique_ptr<Database> database;
    Stamp floor = 0;                  ///< no stamp so far was larger
    Stamp new_floor = 0;              ///< that the next start will find
    std::uint64_t version_floor = 0;  ///< no version of a user's presence so far was larger
    HashKey key{};                    ///< a secret that was drawn when the database was made
    StoreMark mark{};
    std::optional<StoreDamage> damage{};  ///< that this start or an earlier one has found
};

/// Opens `folder`/pulsegate.db or makes it ("": a database in memory), checks it if it was not
/// closed in order, and migrates it. All that is visible in it afterwards is on disk. Of a damaged
/// one a new one is made with what can be read; what is lost is told. Throws std::runtime_error
/// with one line that says what to do.
OpenStore open_store(const std::string& folder, Fsync fsync, const char* vfs);

/// The same, in memory: filled from its mirror, which follows it from now on. Throws
/// std::runtime_error.
OpenStore open_mirrored(Mirror& mirror);

/// Has the next start salvage the database in any case: what a write has met, a check may not see.
void mark_damaged(const std::string& folder, const std::string& why);

/// When all is loaded: so far the cache was small, since a start reads each page once.
void enlarge_cache(Database& database, std::size_t bytes);

/// The floor that is above `highest` for the next minute.
inline constexpr Stamp floor_ahead = stamp_at(60'000);

}  // namespace pulsegate
