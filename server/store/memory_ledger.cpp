#include "server/store/memory_ledger.h"

#include <utility>

namespace pulsegate {

void MemoryLedger::submit(Unit unit) {
    if (unit.completion) unit.completion(Outcome::committed, unit.operations);
}

void MemoryLedger::find_owner(OwnerKind, std::string, std::string, OwnerAnswer answer) {
    answer(Outcome::committed, std::nullopt);
}

void MemoryLedger::read_messages(std::vector<Stamp>, MessagesAnswer answer) {
    answer(Outcome::committed, {});
}

}  // namespace pulsegate
