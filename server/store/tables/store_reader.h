#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/ledger/ledger.h"
#include "server/store/tables/waiting_index.h"

namespace pulsegate {

/// Shows all stored data except delayed messages to the visitor, and fills the index. Damaged rows
/// are logged and left out. Returns owner numbers that no row mentions. The caller must check the
/// database for errors. `meanwhile` is called after each thousand rows.
OwnerRange load_all(Database& database, WaitingIndex& index, Ledger::Visitor& visitor,
                    const std::function<void()>& meanwhile);

/// Reads single messages. It sees the writes of the open transaction.
class StoreReader {
public:
    explicit StoreReader(Database& database);

    std::vector<StoredMessage> messages(const std::vector<Stamp>& stamps);

private:
    Database& database_;
    Statement find_message_;
};

}  // namespace pulsegate
