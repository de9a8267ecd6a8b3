#include "server/message/stored_floor.h"

#include <atomic>

namespace pulsegate {

namespace {

std::atomic<std::uint64_t> floor_of_store{no_stored_floor};

}  // namespace

std::uint64_t stored_floor() { return floor_of_store.load(std::memory_order_relaxed); }

void set_stored_floor(std::uint64_t floor) {
    floor_of_store.store(floor, std::memory_order_relaxed);
}

}  // namespace pulsegate
