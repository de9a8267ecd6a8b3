#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "server/base/hash.h"
#include "server/base/memory/sparse.h"
#include "server/base/owner_thread.h"
#include "server/routing/interest.h"

namespace pulsegate {

struct Filter;

/// Base of a session, and of the group of a shared subscription.
class Subscriber {};

template <class Tag>
using SubscriptionHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                     boost::intrusive::link_mode<boost::intrusive::normal_link>>;

/// One subscriber's subscription to one filter. It is linked in two lists, the filter's and the
/// subscriber's own, so that removing it is O(1) however long they are.
struct Subscription : SubscriptionHook<Filter>, SubscriptionHook<Subscriber> {
    Filter* filter;
    Subscriber* subscriber;
    std::uint32_t identifier = 0;  ///< MQTT 5.0 subscription identifier; 0: none
    SubscribeOptions options;
};

/// The subscriptions of one subscriber.
using SubscriptionList =
    boost::intrusive::list<Subscription, boost::intrusive::base_hook<SubscriptionHook<Subscriber>>,
                           boost::intrusive::constant_time_size<false>>;

/// A subscriber that must get a message, with the highest QoS of its matching subscriptions.
struct Match {
    Subscriber* subscriber;
    QoS qos;
    bool retain_as_published;
    std::vector<std::uint32_t> identifiers;
};

/// Finds the subscribers of a shard for a topic. Filters without wildcards, such as a hundred
/// thousand inboxes, are in a hash table. Filters with wildcards are in a tree of levels. It owns
/// filters and subscriptions, not subscribers. Owned by the shard, used on its thread.
class Router {
public:
    /// Adds each filter that has subscribers to `interest`.
    explicit Router(Interest& interest);
    ~Router();
    Router(const Router&) = delete;
    Router& operator=(const Router&) = delete;

    void reserve(std::size_t filters) { filters_.reserve(filters); }
    /// Once a second.
    void shrink() {
        shrink_if_sparse(filters_);
        shrink_if_sparse(levels_);
        shrink_if_sparse(many_);
    }
    /// Subscribes, or replaces the options of a subscription to the same filter. The filter must be
    /// valid. Returns true if the subscription is new.
    bool subscribe(Subscriber& subscriber, SubscriptionList& own, std::string_view filter,
                   SubscribeOptions options, std::uint32_t identifier);

    /// The subscriber's subscription to this filter; null if there is none.
    [[nodiscard]] const Subscription* find(const SubscriptionList& own,
                                           std::string_view filter) const;

    /// Returns false if there was no such subscription.
    bool unsubscribe(SubscriptionList& own, std::string_view filter);
    void unsubscribe_all(SubscriptionList& own);

    /// Calls `visit(const Match&)` once for each subscriber with a matching subscription. Leaves
    /// out the publisher's subscriptions with no-local, and returns whether there were any
    /// (`publisher` is null if it is not on this shard). The visitor must not subscribe or
    /// unsubscribe.
    template <class Visitor>
    bool match(const HashedText& topic, const Subscriber* publisher, Visitor visit) {
        find_filters(topic);
        if (matched_.empty()) return false;
        if (matched_.size() == 1) return visit_one(*matched_.front(), publisher, visit);
        const bool declined = merge_matches(publisher);
        for (const Match& match : merged_) visit(match);
        return declined;
    }

    /// Calls `visit(const Subscription&)` for the subscriptions of one subscriber that match the
    /// topic, however many others it has. The visitor must not match, subscribe or unsubscribe.
    template <class Visitor>
    void match_own(const HashedText& topic, const SubscriptionList& own, Visitor visit) {
        if (own.empty()) return;
        find_filters(topic);
        for (const Filter* filter : matched_)
            if (const Subscription* const each = find(*filter, own)) visit(*each);
    }

    std::size_t subscriptions() const { return subscriptions_; }

    /// The measure of a round's work: levels and subscriptions that were examined since the start.
    std::uint64_t work() const { return work_; }

private:
    struct Level;

    /// The key of a level: its parent and its name.
    struct Step {
        Step(const Level& parent, std::string_view name);
        Step(const Level& parent, std::string_view name, std::uint64_t name_hash)
            : parent(&parent), name(name), name_hash(name_hash) {}

        const Level* parent;
        std::string_view name;
        std::uint64_t name_hash;
    };

    /// Hashes filters by their text, levels by their Step.
    struct Hash {
        using is_transparent = void;
        using is_avalanching = void;
        std::size_t operator()(std::string_view text) const;
        std::size_t operator()(const HashedText& text) const;
        std::size_t operator()(const Filter* filter) const;
        std::size_t operator()(const Step& step) const;
        std::size_t operator()(const Level* level) const;
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const Filter* a, const Filter* b) const { return a == b; }
        bool operator()(const Level* a, const Level* b) const { return a == b; }
        bool operator()(std::string_view text, const Filter* filter) const;
        bool operator()(const Filter* filter, std::string_view text) const;
        bool operator()(const HashedText& text, const Filter* filter) const;
        bool operator()(const Filter* filter, const HashedText& text) const;
        bool operator()(const Step& step, const Level* level) const;
        bool operator()(const Level* level, const Step& step) const;
    };

    /// Finds the subscription of one subscriber to one filter.
    struct SubscriptionKey {
        const Filter* filter;
        const Subscriber* subscriber;
        bool operator==(const SubscriptionKey&) const = default;
    };
    struct KeyHash {
        using is_transparent = void;
        std::size_t operator()(const SubscriptionKey& key) const;
        std::size_t operator()(const Subscription* subscription) const;
    };
    struct KeyEqual {
        using is_transparent = void;
        bool operator()(const Subscription* a, const Subscription* b) const { return a == b; }
        bool operator()(const SubscriptionKey& key, const Subscription* subscription) const;
        bool operator()(const Subscription* subscription, const SubscriptionKey& key) const;
    };

    template <class Visitor>
    bool visit_one(Filter& filter, const Subscriber* publisher, Visitor& visit);

    Filter& find_or_create(std::string_view text);
    Subscription* find(const Filter& filter, const SubscriptionList& own) const;
    void enter(SubscriptionList& own, Subscription& added);
    void remove(SubscriptionList& own, Subscription& subscription);
    void drop(Filter& filter);
    void add_to_tree(Filter& filter);
    void remove_from_tree(Filter& filter);
    Level* below(const Step& step) const;
    Level* any_or_below(const Level& level, std::string_view name) const;
    Level* make_below(Level& parent, std::string_view name);
    void find_filters(const HashedText& topic);
    void find_in_tree(std::string_view topic);
    bool merge_matches(const Subscriber* publisher);

    Interest& interest_;
    boost::unordered_flat_set<Filter*, Hash, Equal> filters_;
    std::unique_ptr<Level> tree_;  ///< the root of the tree of filters with wildcards
    boost::unordered_flat_set<Level*, Hash, Equal> levels_;  ///< all levels below it
    std::size_t subscriptions_ = 0;
    /// The subscriptions of subscribers with more than a few, because a filter may have a hundred
    /// thousand subscribers.
    boost::unordered_flat_set<Subscription*, KeyHash, KeyEqual> many_;
    mutable std::uint64_t work_ = 0;

    // Used by `match` only; kept for its capacity.
    std::vector<Filter*> matched_;
    std::vector<Match> merged_;
    std::vector<const Level*> levels_here_;   ///< levels of the tree that match the topic so far
    std::vector<const Level*> levels_below_;  ///< levels that match one more level of the topic
    [[no_unique_address]] OwnerThread thread_;
};

/// A filter with subscribers. Its text follows it in the same allocation.
struct Filter {
    boost::intrusive::list<Subscription, boost::intrusive::base_hook<SubscriptionHook<Filter>>,
                           boost::intrusive::constant_time_size<false>>
        subscribers;
    std::uint32_t hash;  ///< half of its text's, because a table that grows asks for all of them
    std::uint16_t size;
    Interest::Table table = 0;

    std::string_view text() const { return {reinterpret_cast<const char*>(this + 1), size}; }
};

template <class Visitor>
bool Router::visit_one(Filter& filter, const Subscriber* publisher, Visitor& visit) {
    bool declined = false;
    Match match;
    for (const Subscription& subscription : filter.subscribers) {
        ++work_;
        if (subscription.options.no_local && subscription.subscriber == publisher) {
            declined = true;
            continue;
        }
        match.subscriber = subscription.subscriber;
        match.qos = subscription.options.qos;
        match.retain_as_published = subscription.options.retain_as_published;
        match.identifiers.clear();
        if (subscription.identifier != 0) match.identifiers.push_back(subscription.identifier);
        visit(match);
    }
    return declined;
}

}  // namespace pulsegate
