#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/overloaded.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

/// A request to a ledger, and its result until it may be reported.
struct Request {
    struct ReadMessages {
        std::vector<Stamp> stamps;
        Ledger::MessagesAnswer answer;
        std::vector<StoredMessage> found{};
    };
    struct TakeDelayed {
        std::int64_t before;
        std::size_t most;
        Ledger::DelayedAnswer answer;
        std::vector<PutDelayed> found{};
    };
    struct ListDelayed {
        std::optional<std::string> user;
        std::uint64_t after;
        std::size_t most;
        Ledger::DelayedAnswer answer;
        std::vector<PutDelayed> found{};
    };

    struct ReadEvents {
        EventNumber after;
        std::uint32_t kinds;
        std::size_t most;
        Ledger::EventsAnswer answer;
        EventPage found{};
    };
    struct ListDeadLetters {
        EventNumber after;
        bool to_replay;
        std::size_t most;
        Ledger::DeadLettersAnswer answer;
        std::vector<DeadLetter> found{};
    };

    std::variant<Unit, ReadMessages, TakeDelayed, ListDelayed, ReadEvents, ListDeadLetters> what;
    Outcome outcome = Outcome::committed;  ///< outcome of the last attempt
    std::vector<std::size_t> left_out{};   ///< operations of a unit that the database rejects

    /// Call it once.
    void answer() {
        std::visit(Overloaded{[&](Unit& unit) {
                                  if (unit.completion) unit.completion(outcome, unit.operations);
                              },
                              [&](auto& read) {
                                  if (outcome != Outcome::committed) read.found = {};
                                  read.answer(outcome, std::move(read.found));
                              }},
                   what);
    }
};

}  // namespace pulsegate
