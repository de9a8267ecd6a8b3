#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Units, and what must be stored after each of them.
struct LedgerScript {
    std::vector<std::vector<Operation>> units;
    std::vector<std::size_t> groups;     ///< how many units are submitted at a time
    std::vector<std::string> states;     ///< one more than there are units
    std::vector<std::size_t> cancelled;  ///< delayed messages, by each unit
    std::vector<Stamp> highest;          ///< stamp so far, as `states`
};

/// Every operation, in the order in which sessions would use them.
LedgerScript written_script();

/// What sessions might do, drawn by chance.
LedgerScript random_script(std::uint32_t seed, std::size_t units);

}  // namespace pulsegate
