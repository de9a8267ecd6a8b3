#pragma once

#include <cstddef>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The approximate bytes that the operation takes in memory while it waits for the store.
std::size_t cost_of(const Operation& operation);
/// The part of it that one receiver of a message takes.
std::size_t cost_of(const Receiver& receiver);

}  // namespace pulsegate
