#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/session/broker.h"
#include "server/store/fsync.h"
#include "server/store/ledger.h"

namespace pulsegate {

/// What outlives the process, for all shards: the ledger, and how the brokers get back what it
/// holds. Any thread may use it after `restore`.
class DataStore {
public:
    struct Settings {
        std::string folder{};  ///< "": none
        Fsync fsync = Fsync::always;
    };

    /// Opens the store, and makes it if it is not there. Throws std::runtime_error with one line
    /// that says what to do.
    explicit DataStore(const Settings& settings);
    ~DataStore();

    /// Puts back all sessions, retained messages and users. Before the shards run.
    void restore(const std::vector<Broker*>& brokers);

    OwnerId next_owner() { return next_owner_.fetch_add(1, std::memory_order_relaxed); }

    /// `done` is called on the ledger's thread.
    void submit(std::vector<Operation> operations, bool urgent, std::function<void(UnitDone)> done);

    /// Is the disk in trouble, and everything refused?
    bool refusing() const { return ledger_->refusing(); }

    /// Commits what was submitted, and ends.
    void close() { ledger_.reset(); }

private:
    std::unique_ptr<Ledger> ledger_;
    std::atomic<OwnerId> next_owner_{1};
};

}  // namespace pulsegate
