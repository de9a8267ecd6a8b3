#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/sqlite_ledger.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ledger_model.h"
#include "tests/support/memory_rows.h"
#include "tests/support/temporary_folder.h"

namespace pulsegate {

// Operations of the tests, and what a ledger says to them.

inline std::future<Outcome> submit(Ledger& ledger, std::vector<Operation> operations,
                                   std::uint32_t source = 0, std::uint32_t generation = 0) {
    auto told = std::make_shared<std::promise<Outcome>>();
    ledger.submit({std::move(operations),
                   [told](Outcome outcome, auto&) { told->set_value(outcome); }, source,
                   generation});
    return told->get_future();
}

inline Outcome commit(Ledger& ledger, std::vector<Operation> operations) {
    return submit(ledger, std::move(operations)).get();
}

inline std::vector<Stamp> stored_of(Ledger& ledger, std::vector<Stamp> stamps) {
    std::promise<std::vector<Stamp>> answered;
    ledger.read_messages(std::move(stamps), [&](Outcome, std::vector<StoredMessage> found) {
        std::vector<Stamp> there;
        for (const StoredMessage& each : found) there.push_back(each.stamp);
        answered.set_value(there);
    });
    return answered.get_future().get();
}

inline PutOwner session(OwnerId owner, std::string user = "ann") {
    return {.owner = owner, .user = std::move(user), .client = "phone", .expiry = 60};
}

inline PutMessage put(Stamp stamp, std::vector<OwnerId> owners, std::string payload = "hello") {
    PutMessage made{.stamp = stamp, .message = message("topic", std::move(payload))};
    for (const OwnerId owner : owners) made.receivers.push_back({.owner = owner});
    return made;
}

/// Ann's, with the number 1 of its second.
inline PutDelayed delayed(std::int64_t due, std::optional<std::string> name = std::nullopt) {
    return {.id = delayed_id(due, 1),
            .user = "ann",
            .name = std::move(name),
            .message = message("d", "later")};
}

/// Where a ledger keeps what it is given.
enum class Kept : std::uint8_t { on_disk, mirrored };

/// The test case runs once with each.
inline Kept each_kind() {
    Kept kept = Kept::on_disk;
    SUBCASE("on disk") {}
    SUBCASE("mirrored") { kept = Kept::mirrored; }
    return kept;
}

/// A ledger on a disk in memory that can fail, or in memory and mirrored; it starts and ends as the
/// test likes.
class Store {
public:
    explicit Store(SqliteLedger::Options options = {}) : Store(Kept::on_disk, std::move(options)) {}
    explicit Store(Kept kept, SqliteLedger::Options options = {}) : options_(std::move(options)) {
        if (kept == Kept::mirrored) {
            options_.rows = &rows_;
        } else {
            options_.folder = folder_.path("data");
            options_.vfs = disk_.vfs();
        }
        options_.first_pause = std::chrono::milliseconds(1);
        // What was submitted together is one transaction, on a busy machine too.
        options_.longest_transaction = std::chrono::minutes(1);
        start();
    }

    void start() {
        ledger_ = std::make_unique<SqliteLedger>(options_);
        found_ = StoredState();
        began_ = found_.read(*ledger_);
    }
    void stop() { ledger_.reset(); }
    void restart() {
        stop();
        start();
    }

    /// Between two starts.
    void run(const char* sql) {
        stop();
        {
            Database opened(options_.folder + "/pulsegate.db", disk_.vfs());
            opened.run("PRAGMA locking_mode = EXCLUSIVE");
            opened.run(sql);
            CHECK(opened.error_text() == "");
        }
        start();
    }

    SqliteLedger& operator*() { return *ledger_; }
    SqliteLedger* operator->() { return ledger_.get(); }
    FaultyDisk& disk() { return disk_; }
    MemoryRows& rows() { return rows_; }
    const MemoryRows& rows() const { return rows_; }
    /// The database itself can't be written, only the log.
    void break_database() {
        disk_.break_file(options_.folder + "/pulsegate.db", SQLITE_IOERR_WRITE);
    }
    std::size_t wal_size() const { return disk_.size(options_.folder + "/pulsegate.db-wal"); }
    /// What the last start has found.
    const StoredState& found() const { return found_; }
    const Ledger::Start& began() const { return began_; }

private:
    TemporaryFolder folder_;
    FaultyDisk disk_;
    MemoryRows rows_;
    SqliteLedger::Options options_;
    StoredState found_;
    Ledger::Start began_;
    std::unique_ptr<SqliteLedger> ledger_;
};

}  // namespace pulsegate
