#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/ledger.h"

namespace pulsegate {

/// What was submitted to a ledger, and its result until it may be told.
struct Request {
    struct FindOwner {
        OwnerKind kind;
        std::string user;
        std::string client;
        Ledger::OwnerAnswer answer;
        std::optional<PutOwner> found{};
    };
    struct ReadMessages {
        std::vector<Stamp> stamps;
        Ledger::MessagesAnswer answer;
        std::vector<StoredMessage> found{};
    };

    std::variant<Unit, FindOwner, ReadMessages> what;
    Outcome outcome = Outcome::committed;  ///< of the last attempt

    /// Once.
    void answer() {
        if (auto* unit = std::get_if<Unit>(&what)) {
            if (unit->completion) unit->completion(outcome, unit->operations);
        } else if (auto* find = std::get_if<FindOwner>(&what)) {
            find->answer(outcome, std::move(find->found));
        } else if (auto* read = std::get_if<ReadMessages>(&what)) {
            read->answer(outcome, std::move(read->found));
        }
    }
};

}  // namespace pulsegate
