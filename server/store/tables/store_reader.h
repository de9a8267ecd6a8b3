#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/store/database/database.h"
#include "server/store/ledger/ledger.h"
#include "server/store/tables/waiting_index.h"

namespace pulsegate {

/// Shows all that is stored but delayed messages to the visitor, and fills the index. Rows that are
/// damaged are logged and left out. Returns the least owner number that no row mentions. The caller
/// asks the database for errors. `meanwhile` is called after each thousand rows.
OwnerId load_all(Database& database, WaitingIndex& index, Ledger::Visitor& visitor,
                 const std::function<void()>& meanwhile);

/// Answers single questions. It sees what the open transaction has written.
class StoreReader {
public:
    explicit StoreReader(Database& database);

    std::optional<PutOwner> find_owner(OwnerKind kind, const std::string& user,
                                       const std::string& client);
    std::vector<StoredMessage> messages(const std::vector<Stamp>& stamps);

private:
    Database& database_;
    Statement find_owner_;
    Statement find_message_;
};

}  // namespace pulsegate
