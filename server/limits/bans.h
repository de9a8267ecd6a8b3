#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// The end of a ban that lasts until it is lifted.
inline constexpr Millis for_good = std::numeric_limits<Millis>::max();

/// The cause of a ban.
struct BanCause {
    bool ordered = false;  ///< by the administrator; otherwise for bad behaviour
    std::string reason{};  ///< the administrator's reason
};

/// A banned address, or a banned user, or one client of a user, as the admin API shows it.
struct Ban {
    std::string address{};
    std::string user{};
    std::string client{};        ///< "": all clients of the user
    std::optional<Millis> left;  ///< time until the ban ends; nothing: it is permanent
    BanCause cause{};
};

/// The most bans by the administrator in a list. Bans for bad behaviour are few by their nature.
inline constexpr std::size_t most_ordered_bans = 100'000;

/// Bans with the time when each ends. It has no clock.
template <class Key, class Hash = boost::hash<Key>>
class BanList {
public:
    /// Bans for bad behaviour. A ban that lasts longer stays as it is.
    void add(Key key, Millis now, Millis until) {
        if (now >= next_sweep_) sweep(now);
        auto& term = terms_[std::move(key)];
        if (term.until < until) replace(term, {until, {}});
    }

    /// Bans by the administrator, and replaces any other ban. False if there are too many such
    /// bans.
    [[nodiscard]] bool order(Key key, Millis now, Millis until, std::string reason) {
        if (ordered_ >= most_ordered_bans) sweep(now);
        if (ordered_ >= most_ordered_bans && !terms_.contains(key)) return false;
        replace(terms_[std::move(key)], {until, {true, std::move(reason)}});
        return true;
    }

    /// Takes over a ban from the process that this one replaces. False if there are too many bans.
    [[nodiscard]] bool adopt(Key key, Millis now, const Ban& ban) {
        const Millis until = ban.left ? now + *ban.left : for_good;
        if (ban.cause.ordered) return order(std::move(key), now, until, ban.cause.reason);
        add(std::move(key), now, until);
        return true;
    }

    /// The cause of the key's ban; nothing if it is not banned.
    [[nodiscard]] std::optional<BanCause> find(const Key& key, Millis now) const {
        const auto found = terms_.find(key);
        if (found == terms_.end() || found->second.until <= now) return std::nullopt;
        return found->second.cause;
    }

    /// False if the key was not banned.
    [[nodiscard]] bool lift(const Key& key, Millis now) {
        const auto found = terms_.find(key);
        if (found == terms_.end()) return false;
        const bool banned = found->second.until > now;
        ordered_ -= found->second.cause.ordered;
        terms_.erase(found);
        return banned;
    }

    bool empty() const { return terms_.empty(); }

    /// Calls `visit(key, ban)`, with the ban's time and cause, for each ban that has not ended.
    template <class Visit>
    void visit(Millis now, Visit visit) const {
        for (const auto& [key, term] : terms_) {
            Ban ban{.left = std::nullopt, .cause = term.cause};
            if (term.until != for_good) ban.left = term.until - now;
            if (term.until > now) visit(key, std::move(ban));
        }
    }

private:
    struct Term {
        Millis until = 0;
        BanCause cause{};
    };

    static constexpr Millis sweep_every = 60'000;

    void replace(Term& term, Term by) {
        ordered_ += by.cause.ordered;
        ordered_ -= term.cause.ordered;
        term = std::move(by);
    }

    void sweep(Millis now) {
        next_sweep_ = now + sweep_every;
        erase_if(terms_, [&](const auto& entry) {
            const bool ended = entry.second.until <= now;
            if (ended) ordered_ -= entry.second.cause.ordered;
            return ended;
        });
    }

    boost::unordered_flat_map<Key, Term, Hash> terms_;
    std::size_t ordered_ = 0;  ///< by the administrator
    Millis next_sweep_ = 0;
};

}  // namespace pulsegate
