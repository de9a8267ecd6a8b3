#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// A sorted set of stamps in 16 bytes. Each owner has one, and most have at most one stamp. A
/// single stamp is stored in place of the pointer to the array.
class StampSet {
public:
    StampSet() = default;
    StampSet(StampSet&& other) noexcept
        : place_(std::exchange(other.place_, {})),
          size_(std::exchange(other.size_, 0)),
          room_(std::exchange(other.room_, 1)) {}
    StampSet& operator=(StampSet&& other) noexcept {
        std::swap(place_, other.place_);
        std::swap(size_, other.size_);
        std::swap(room_, other.room_);
        return *this;
    }
    ~StampSet() {
        if (room_ > 1) delete[] place_.many;
    }

    std::span<const Stamp> all() const { return {begin(), size_}; }
    bool empty() const { return size_ == 0; }

    /// Returns false if it was there before.
    bool insert(Stamp stamp);
    /// Returns false if it was not there.
    bool erase(Stamp stamp);
    /// Erases the first `count` stamps.
    void erase_first(std::size_t count);

private:
    union Place {
        Stamp one = 0;
        Stamp* many;  ///< used if there is room for more than one
    };

    const Stamp* begin() const { return room_ > 1 ? place_.many : &place_.one; }
    Stamp* begin() { return room_ > 1 ? place_.many : &place_.one; }
    std::size_t place_of(Stamp stamp) const;
    void grow();
    void erase(std::size_t first, std::size_t count);

    Place place_{};
    std::uint32_t size_ = 0;
    std::uint32_t room_ = 1;
};

static_assert(sizeof(StampSet) == 16);

}  // namespace pulsegate
