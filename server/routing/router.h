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

namespace pulsegate {

class Session;
struct Filter;

template <class Tag>
using SubscriptionHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                     boost::intrusive::link_mode<boost::intrusive::normal_link>>;

/// One session's subscription to one filter. It hangs in two lists, the filter's and the session's
/// own, so that leaving is O(1) however large the room and however many the subscriptions.
struct Subscription : SubscriptionHook<Filter>, SubscriptionHook<Session> {
    Filter* filter;
    Session* session;
    std::uint32_t identifier = 0;  ///< MQTT 5.0 subscription identifier; 0: none
    SubscribeOptions options;
};

/// The subscriptions of one session.
using SubscriptionList =
    boost::intrusive::list<Subscription, boost::intrusive::base_hook<SubscriptionHook<Session>>,
                           boost::intrusive::constant_time_size<false>>;

/// What one session is due of one message: the highest QoS of its matching subscriptions.
struct Match {
    Session* session;
    QoS qos;
    bool retain_as_published;
    std::vector<std::uint32_t> identifiers;
};

/// Which sessions of this shard want a topic. Filters without wildcards (an inbox for each user, a
/// hundred thousand of them) are a hash lookup; those with wildcards live in a tree of levels.
class Router {
public:
    Router();
    ~Router();
    Router(const Router&) = delete;
    Router& operator=(const Router&) = delete;

    /// Subscribes, or replaces the options of a subscription to the same filter. The filter must be
    /// valid. True if the subscription is new.
    bool subscribe(Session& session, SubscriptionList& own, std::string_view filter,
                   SubscribeOptions options, std::uint32_t identifier);

    /// Is the filter among the session's own?
    bool subscribed(SubscriptionList& own, std::string_view filter) const;

    /// False if there was none.
    bool unsubscribe(SubscriptionList& own, std::string_view filter);
    void unsubscribe_all(SubscriptionList& own);

    /// Calls `visit(const Match&)` once for each session with a matching subscription; those with
    /// no-local don't count for the publisher (null: none of this shard). The visitor must not
    /// subscribe or unsubscribe.
    template <class Visitor>
    void match(std::string_view topic, const Session* publisher, Visitor visit) {
        find_filters(topic);
        if (matched_.empty()) return;
        if (matched_.size() == 1) return visit_one(*matched_.front(), publisher, visit);
        merge_matches(publisher);
        for (const Match& match : merged_) visit(match);
    }

    std::size_t subscriptions() const { return subscriptions_; }

    /// Levels and subscriptions looked at since the beginning: what a turn is measured by.
    std::uint64_t work() const { return work_; }

private:
    struct Level;

    /// Filters are looked up by their text; the hash is of it.
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const;
        std::size_t operator()(const Filter* filter) const;
    };
    struct Equal {
        using is_transparent = void;
        bool operator()(const Filter* a, const Filter* b) const { return a == b; }
        bool operator()(std::string_view text, const Filter* filter) const;
        bool operator()(const Filter* filter, std::string_view text) const;
    };

    template <class Visitor>
    void visit_one(Filter& filter, const Session* publisher, Visitor& visit);

    Filter& find_or_create(std::string_view text);
    Subscription* find(Filter& filter, SubscriptionList& own) const;
    void remove(SubscriptionList& own, Subscription& subscription);
    void drop(Filter& filter);
    void find_filters(std::string_view topic);
    void find_in_tree(const Level& level, std::string_view topic, bool first);
    void merge_matches(const Session* publisher);

    boost::unordered_flat_set<Filter*, Hash, Equal> filters_;
    std::unique_ptr<Level> tree_;  ///< the filters with wildcards, by their levels
    std::size_t subscriptions_ = 0;
    mutable std::uint64_t work_ = 0;

    std::vector<Filter*> matched_;  ///< scratch of `match`, kept for its memory
    std::vector<Match> merged_;
};

/// A filter that somebody subscribed to, with its text behind it in the same allocation.
struct Filter {
    boost::intrusive::list<Subscription, boost::intrusive::base_hook<SubscriptionHook<Filter>>,
                           boost::intrusive::constant_time_size<false>>
        subscribers;
    std::uint16_t size;

    std::string_view text() const { return {reinterpret_cast<const char*>(this + 1), size}; }
};

template <class Visitor>
void Router::visit_one(Filter& filter, const Session* publisher, Visitor& visit) {
    Match match;
    for (const Subscription& subscription : filter.subscribers) {
        ++work_;
        if (subscription.options.no_local && subscription.session == publisher) continue;
        match.session = subscription.session;
        match.qos = subscription.options.qos;
        match.retain_as_published = subscription.options.retain_as_published;
        match.identifiers.clear();
        if (subscription.identifier != 0) match.identifiers.push_back(subscription.identifier);
        visit(match);
    }
}

}  // namespace pulsegate
