#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/ledger.h"

namespace pulsegate {

/// `--data none`: all units are committed at once, on the caller's thread, and nothing is kept.
class MemoryLedger : public Ledger {
public:
    Start load(Visitor&, std::int64_t) override { return {}; }
    void submit(Unit unit) override;
    void submit_lazily(Unit unit) override { submit(std::move(unit)); }
    void find_owner(OwnerKind, std::string, std::string, OwnerAnswer answer) override;
    void read_messages(std::vector<Stamp>, MessagesAnswer answer) override;
    bool refusing() const override { return false; }
};

}  // namespace pulsegate
