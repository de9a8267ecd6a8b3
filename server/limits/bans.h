#pragma once

#include <boost/container_hash/hash.hpp>
#include <boost/multi_index/hashed_index.hpp>
#include <boost/multi_index/member.hpp>
#include <boost/multi_index/ordered_index.hpp>
#include <boost/multi_index_container.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

/// A banned address, or a banned user, or one client of a user, as the HTTP API shows it.
struct Ban {
    std::string address{};
    std::string user{};
    std::string client{};        ///< "": all clients of the user
    std::optional<Millis> left;  ///< time until the ban ends; nothing: it is permanent
    BanCause cause{};

    std::size_t bytes() const {
        return sizeof *this + address.size() + user.size() + client.size() + cause.reason.size();
    }
};

/// Some bans, in the order in which they were set.
struct BanPage {
    std::vector<Ban> bans{};
    std::optional<std::uint64_t> next{};  ///< for the page behind it; nothing: it was the last
    std::size_t bytes = 0;

    void add(Ban ban) {
        bytes += ban.bytes();
        bans.push_back(std::move(ban));
    }
    bool is_full(std::size_t most) const { return bans.size() >= most || bytes >= most_bytes; }

private:
    static constexpr std::size_t most_bytes = 1024 * 1024;  ///< names may have 64 KiB each
};

/// The most bans by the administrator in a list, and the most bans for bad behaviour to which those
/// of other nodes are added. Bans that this node has set for bad behaviour are few by their nature.
inline constexpr std::size_t most_ordered_bans = 100'000;

/// Bans with the time when each ends. It has no clock.
template <class Key, class Hash = boost::hash<Key>>
class BanList {
public:
    /// Bans for bad behaviour. A ban that lasts longer stays as it is.
    void add(Key key, Millis now, Millis until) {
        if (now >= next_sweep_) sweep(now);
        const auto found = entries_.find(key);
        if (found == entries_.end() || found->until < until) put(std::move(key), until, {});
    }

    /// Adds a ban for bad behaviour that another node has set, unless there are too many. A ban by
    /// the administrator stays as it is. True if the key was not banned before, or not for so long.
    bool hear(Key key, Millis now, Millis until) {
        if (now >= next_sweep_) sweep(now);
        const auto found = entries_.find(key);
        const bool is_banned = found != entries_.end() && found->until > now;
        if (is_banned && (found->cause.ordered || until - found->until < least_extension))
            return false;
        if (!is_banned && entries_.size() - ordered_ >= most_ordered_bans) return false;
        put(std::move(key), until, {});
        return true;
    }

    /// Bans by the administrator, and replaces any other ban. False if there are too many such
    /// bans.
    [[nodiscard]] bool order(Key key, Millis now, Millis until, std::string reason) {
        if (ordered_ >= most_ordered_bans) sweep(now);
        if (ordered_ >= most_ordered_bans && !entries_.contains(key)) return false;
        put(std::move(key), until, {true, std::move(reason)});
        return true;
    }

    /// Takes over a ban from the process that this one replaces. False if there are too many bans.
    [[nodiscard]] bool adopt(Key key, Millis now, const Ban& ban) {
        const Millis until = ban.left ? now + *ban.left : for_good;
        if (ban.cause.ordered) return order(std::move(key), now, until, ban.cause.reason);
        add(std::move(key), now, until);
        return true;
    }

    /// Adds a ban as another node has it, in place of any other one, unless there are too many.
    void copy(Key key, Millis now, Millis until, bool ordered) {
        if (now >= next_sweep_) sweep(now);
        if (entries_.size() >= 2 * most_ordered_bans && !entries_.contains(key)) return;
        put(std::move(key), until, {.ordered = ordered});
    }

    /// The cause of the key's ban; nothing if it is not banned.
    [[nodiscard]] std::optional<BanCause> find(const Key& key, Millis now) const {
        const auto found = entries_.find(key);
        if (found == entries_.end() || found->until <= now) return std::nullopt;
        return found->cause;
    }

    /// The time until the key's ban ends; nothing if it is not banned.
    [[nodiscard]] std::optional<Millis> left(const Key& key, Millis now) const {
        const auto found = entries_.find(key);
        if (found == entries_.end() || found->until <= now) return std::nullopt;
        return found->until == for_good ? for_good : found->until - now;
    }

    /// False if the key was not banned.
    [[nodiscard]] bool lift(const Key& key, Millis now) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return false;
        const bool banned = found->until > now;
        erase(found);
        return banned;
    }

    bool empty() const { return entries_.empty(); }

    /// All bans that have not ended, in the order in which they were set. `describe(key)` is a Ban
    /// with the name of what is banned, or nothing to leave it out.
    template <class Describe>
    std::vector<Ban> all(Millis now, Describe describe) const {
        std::vector<Ban> all;
        for (const Entry& entry : entries_.template get<1>())
            if (auto ban = described(entry, now, describe)) all.push_back(*std::move(ban));
        return all;
    }

    /// Up to `most` bans that were set after the one with the number `after`, in this order. It
    /// looks at `bans_a_turn` bans at most.
    template <class Describe>
    BanPage page(std::uint64_t after, std::size_t most, Millis now, Describe describe) const {
        BanPage page;
        const auto& by_number = entries_.template get<1>();
        std::size_t looks = 0;
        for (auto at = by_number.upper_bound(after); at != by_number.end(); ++at) {
            if (page.is_full(most) || looks++ == bans_a_turn) {
                page.next = after;
                return page;
            }
            after = at->number;
            if (auto ban = described(*at, now, describe)) page.add(*std::move(ban));
        }
        return page;
    }

private:
    struct Entry {
        Key key;
        std::uint64_t number;  ///< grows with each ban that is set
        Millis until;
        BanCause cause;
    };
    using ByKey = boost::multi_index::member<Entry, Key, &Entry::key>;
    using ByNumber = boost::multi_index::member<Entry, std::uint64_t, &Entry::number>;
    using Entries = boost::multi_index_container<
        Entry, boost::multi_index::indexed_by<boost::multi_index::hashed_unique<ByKey, Hash>,
                                              boost::multi_index::ordered_unique<ByNumber>>>;

    static constexpr Millis sweep_every = 60'000;
    /// A ban that is told again seems to be a bit longer, because it was under way for some time.
    static constexpr Millis least_extension = 1000;
    static constexpr std::size_t bans_a_turn = 1000;

    template <class Describe>
    static std::optional<Ban> described(const Entry& entry, Millis now, Describe& describe) {
        if (entry.until <= now) return std::nullopt;
        std::optional<Ban> ban = describe(entry.key);
        if (!ban) return std::nullopt;
        if (entry.until != for_good) ban->left = entry.until - now;
        ban->cause = entry.cause;
        return ban;
    }

    void put(Key key, Millis until, BanCause cause) {
        const auto found = entries_.find(key);
        if (found != entries_.end()) erase(found);
        ordered_ += cause.ordered;
        entries_.insert({std::move(key), ++last_number_, until, std::move(cause)});
    }

    typename Entries::iterator erase(typename Entries::iterator entry) {
        ordered_ -= entry->cause.ordered;
        return entries_.erase(entry);
    }

    void sweep(Millis now) {
        next_sweep_ = now + sweep_every;
        for (auto at = entries_.begin(); at != entries_.end();)
            at = at->until <= now ? erase(at) : std::next(at);
    }

    Entries entries_;
    std::uint64_t last_number_ = 0;
    std::size_t ordered_ = 0;  ///< by the administrator
    Millis next_sweep_ = 0;
};

}  // namespace pulsegate
