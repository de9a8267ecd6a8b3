#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "server/store/backup/backup_file.h"
#include "server/store/backup/backup_order.h"
#include "server/store/database/database_copy.h"

namespace pulsegate {

/// Backs up a database while it is in use, one backup at a time. The ledger's thread copies the
/// pages, at most a few megabytes ahead of the disk. The backup's own thread does everything that
/// may have to wait: it creates the file, syncs it, checks the copy and names it. Most members pass
/// data between the two threads.
class Backup {
public:
    /// `folder` is the folder of the database. `call_ledger` makes the ledger's thread call
    /// `begin`.
    Backup(Database& source, std::string folder, std::function<void()> call_ledger);
    ~Backup();

    /// Any thread may call it. `answer` is called on the backup's thread, or at once if another
    /// backup is under way.
    void start(BackupOrder order, BackupAnswer answer);

    // On the ledger's thread, between transactions:

    /// Begins to copy, or gives up if the disk is in trouble.
    void begin(bool in_trouble);

    bool is_copying() const { return copy_.has_value(); }

    /// Copies for about a millisecond. Returns false if there is nothing to copy at present.
    bool step();

    /// Ends a backup that is under way. After that, the database may be closed.
    void stop();

private:
    void run(const BackupOrder& order, const BackupAnswer& answer);
    BackupResult write(const BackupOrder& order);
    std::optional<BackupResult> objection_to(const BackupOrder& order) const;
    std::string copy(BackupFile& file);
    std::string check(const std::string& path);
    bool begin_check(Database& database);
    bool end_check();
    void end_copy(std::string error);

    Database& source_;
    const std::string folder_;
    const std::function<void()> call_ledger_;
    std::optional<DatabaseCopy> copy_;  ///< belongs to the ledger's thread

    std::mutex mutex_;  ///< guards all below
    std::condition_variable changed_;
    bool busy_ = false;
    bool stopping_ = false;
    bool copies_ = false;  ///< the ledger's thread has to copy to `part_`
    bool fails_ = false;   ///< the copied data can't be synced
    std::string part_;
    std::string error_;            ///< error of the copy, when it has ended
    std::uint64_t copied_ = 0;     ///< bytes
    std::uint64_t synced_ = 0;     ///< bytes of these
    Database* checked_ = nullptr;  ///< while it may be interrupted
    std::thread thread_;
};

}  // namespace pulsegate
