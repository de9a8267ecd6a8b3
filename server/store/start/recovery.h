#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/store/files/store_folder.h"
#include "server/store/files/store_mark.h"
#include "server/store/pages/wal_file.h"

namespace pulsegate {

/// Handles files that are damaged, missing or from another store, before SQLite opens them. SQLite
/// would treat a fault as the end of a file, and mix files that do not belong together.
class Recovery {
public:
    explicit Recovery(const StoreFolder& folder);

    void run();

    /// Makes a new database from the readable data of a database that SQLite has found damaged.
    void salvage(std::string_view why);

    /// Were there commits that the files no longer have?
    bool lost_commits() const { return lost_commits_; }

private:
    /// The identity of the store, as the database's `meta` table has it.
    struct Identity {
        std::optional<std::uint64_t> store;
        std::uint64_t wal = 0;
        std::optional<std::int64_t> clean;
    };

    Identity identity(const WalFile* wal) const;
    std::uintmax_t database_size() const;
    void begin_without_database();
    void check_wal();
    bool belongs(const Identity& without, const Identity& with);
    void check_mark(const Identity& without, const Identity& with);
    void note_loss(std::string_view what);
    void mend_wal(bool was_copied);
    void salvage(const WalFile& wal, bool is_mixed);

    const StoreFolder& folder_;
    WalFile wal_;
    std::optional<MarkedPoint> mark_;
    bool lost_commits_ = false;
};

}  // namespace pulsegate
