#pragma once

#include <optional>
#include <utility>

#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/limits/bans.h"

namespace pulsegate {

/// The bans of addresses that hold at another node, the home of this edge. A link to a home begins
/// with a list of them. Until the list is complete, the bans of the last link hold, too: otherwise
/// a banned address could log in meanwhile. It has no clock.
class HomeBans {
public:
    using List = BanList<Address>;

    void begin_list() { coming_.emplace(); }
    /// The list is complete. The caller frees the bans that it replaces, because they may be many.
    [[nodiscard]] List end_list() {
        if (!coming_) return {};
        List replaced = std::exchange(known_, *std::move(coming_));
        coming_.reset();
        return replaced;
    }
    /// There is no home, or it tells no bans. The caller frees the bans that there were.
    [[nodiscard]] List forget() {
        coming_.reset();
        return std::exchange(known_, {});
    }

    void hear(const Address& address, Millis now, Millis until, bool ordered) {
        known_.copy(address, now, until, ordered);
        if (coming_) coming_->copy(address, now, until, ordered);
    }
    /// False if the address was not banned.
    [[nodiscard]] bool lift(const Address& address, Millis now) {
        if (coming_) static_cast<void>(coming_->lift(address, now));
        return known_.lift(address, now);
    }
    [[nodiscard]] std::optional<BanCause> find(const Address& address, Millis now) const {
        return known_.find(address, now);
    }

private:
    List known_;
    std::optional<List> coming_;  ///< the part of the list that has come
};

}  // namespace pulsegate
