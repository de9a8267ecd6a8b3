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

/// When a ban ends that has to be lifted.
inline constexpr Millis for_good = std::numeric_limits<Millis>::max();

/// Why somebody is kept out.
struct BanCause {
    bool ordered = false;  ///< by the administrator; else for how it behaved
    std::string reason{};  ///< what the administrator has said
};

/// A banned address, or a banned user, or one client of a user, as the admin API shows it.
struct Ban {
    std::string address{};
    std::string user{};
    std::string client{};        ///< "": all of the user's
    std::optional<Millis> left;  ///< until the ban ends; nothing: it is for good
    BanCause cause{};
};

/// Bans by the administrator that a list may have; those for bad behaviour are few by their nature.
inline constexpr std::size_t most_ordered_bans = 100'000;

/// Bans with the time when each ends. It has no clock.
template <class Key, class Hash = boost::hash<Key>>
class BanList {
public:
    /// For how it behaved. A ban that lasts longer stays as it is.
    void add(Key key, Millis now, Millis until) {
        if (now >= next_sweep_) sweep(now);
        auto& term = terms_[std::move(key)];
        if (term.until < until) replace(term, {until, {}});
    }

    /// By the administrator, in place of any other. False if there are too many of them.
    [[nodiscard]] bool order(Key key, Millis now, Millis until, std::string reason) {
        if (ordered_ >= most_ordered_bans) sweep(now);
        if (ordered_ >= most_ordered_bans && !terms_.contains(key)) return false;
        replace(terms_[std::move(key)], {until, {true, std::move(reason)}});
        return true;
    }

    /// As another process had it, which this one takes the place of. False as for `order`.
    [[nodiscard]] bool adopt(Key key, Millis now, const Ban& ban) {
        const Millis until = ban.left ? now + *ban.left : for_good;
        if (ban.cause.ordered) return order(std::move(key), now, until, ban.cause.reason);
        add(std::move(key), now, until);
        return true;
    }

    /// Why the key is banned; nothing if it is not.
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

    /// Calls `visit(key, ban)`, with the ban's time and cause, for each that has not ended.
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
