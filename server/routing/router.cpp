#include "server/routing/router.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <cstring>
#include <new>

#include "protocol/topic.h"
#include "server/base/hash.h"
#include "server/message/topics.h"

namespace pulsegate {

/// One level of the wildcard tree, with its name behind it in the same allocation. `here` is the
/// filter that ends at this level, `rest` the one that continues with `#`. The levels below it are
/// found in `levels_`, the one for `+` in `any`.
struct Router::Level {
    Level* parent = nullptr;
    Level* any = nullptr;  ///< `+`
    Filter* here = nullptr;
    Filter* rest = nullptr;
    std::uint64_t name_hash = 0;
    std::uint32_t named = 0;  ///< number of levels below, without `any`
    std::uint16_t size;

    std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), size}; }
    bool empty() const { return named == 0 && !any && !here && !rest; }
};

namespace {

/// The part of a text's hash that its filter keeps.
constexpr std::uint32_t half_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 32);
}

/// Tables use the upper and the lower bits.
constexpr std::size_t doubled(std::uint32_t half) { return std::uint64_t{half} << 32 | half; }

}  // namespace

std::size_t Router::Hash::operator()(std::string_view text) const {
    return doubled(half_of(keyed_hash(text)));
}
std::size_t Router::Hash::operator()(const HashedText& text) const {
    return doubled(half_of(text.hash));
}
std::size_t Router::Hash::operator()(const Filter* filter) const { return doubled(filter->hash); }
bool Router::Equal::operator()(std::string_view text, const Filter* filter) const {
    return filter->text() == text;
}
bool Router::Equal::operator()(const Filter* filter, std::string_view text) const {
    return filter->text() == text;
}

bool Router::Equal::operator()(const HashedText& text, const Filter* filter) const {
    return filter->text() == text.text;
}
bool Router::Equal::operator()(const Filter* filter, const HashedText& text) const {
    return filter->text() == text.text;
}

Router::Step::Step(const Level& parent, std::string_view name)
    : Step(parent, name, keyed_hash(name)) {}

std::size_t Router::Hash::operator()(const Step& step) const {
    // A name has the same hash below every level, so the parent must change it.
    constexpr std::uint64_t golden_ratio = 0x9E3779B9'7F4A7C15;
    return step.name_hash + (reinterpret_cast<std::uintptr_t>(step.parent) >> 4) * golden_ratio;
}
std::size_t Router::Hash::operator()(const Level* level) const {
    return (*this)(Step(*level->parent, level->name(), level->name_hash));
}
bool Router::Equal::operator()(const Step& step, const Level* level) const {
    return level->parent == step.parent && level->name() == step.name;
}
bool Router::Equal::operator()(const Level* level, const Step& step) const {
    return (*this)(step, level);
}

std::size_t Router::KeyHash::operator()(const SubscriptionKey& key) const {
    std::size_t seed = 0;
    boost::hash_combine(seed, key.filter);
    boost::hash_combine(seed, key.subscriber);
    return seed;
}
std::size_t Router::KeyHash::operator()(const Subscription* subscription) const {
    return (*this)(SubscriptionKey{subscription->filter, subscription->subscriber});
}
bool Router::KeyEqual::operator()(const SubscriptionKey& key,
                                  const Subscription* subscription) const {
    return key == SubscriptionKey{subscription->filter, subscription->subscriber};
}
bool Router::KeyEqual::operator()(const Subscription* subscription,
                                  const SubscriptionKey& key) const {
    return (*this)(key, subscription);
}

namespace {

/// So many subscriptions of one subscriber are searched one by one.
constexpr std::size_t few = 16;

/// Allocates a filter or a level, with its text behind it.
template <class Texted>
Texted* make(std::string_view text) {
    void* memory = ::operator new(sizeof(Texted) + text.size());
    auto* made = new (memory) Texted{};
    made->size = static_cast<std::uint16_t>(text.size());
    std::memcpy(reinterpret_cast<char*>(made + 1), text.data(), text.size());
    return made;
}

template <class Texted>
void destroy(Texted* texted) {
    texted->~Texted();
    ::operator delete(texted);
}

}  // namespace

Router::Router(Interest& interest) : interest_(interest), tree_(std::make_unique<Level>()) {}

Router::~Router() {
    for (Filter* filter : filters_) {
        filter->subscribers.clear_and_dispose(
            [](Subscription* subscription) { delete subscription; });
        destroy(filter);
    }
    for (Level* level : levels_) destroy(level);
}

bool Router::subscribe(Subscriber& subscriber, SubscriptionList& own, std::string_view text,
                       SubscribeOptions options, std::uint32_t identifier) {
    thread_.assert_here();
    Filter& filter = find_or_create(text);
    Subscription* subscription = find(filter, own);
    const bool is_new = !subscription;
    if (is_new) {
        subscription = new Subscription;
        subscription->filter = &filter;
        subscription->subscriber = &subscriber;
        filter.subscribers.push_back(*subscription);
        own.push_back(*subscription);
        enter(own, *subscription);
    }
    subscription->options = options;
    subscription->identifier = identifier;
    return is_new;
}

const Subscription* Router::find(const SubscriptionList& own, std::string_view text) const {
    thread_.assert_here();
    const auto filter = filters_.find(text);
    return filter == filters_.end() ? nullptr : find(**filter, own);
}

bool Router::unsubscribe(SubscriptionList& own, std::string_view text) {
    thread_.assert_here();
    const auto filter = filters_.find(text);
    if (filter == filters_.end()) return false;
    Subscription* subscription = find(**filter, own);
    if (!subscription) return false;
    remove(own, *subscription);
    return true;
}

void Router::unsubscribe_all(SubscriptionList& own) {
    thread_.assert_here();
    while (!own.empty()) remove(own, own.front());
}

Subscription* Router::find(const Filter& filter, const SubscriptionList& own) const {
    auto in_filter = filter.subscribers.begin();
    auto in_own = own.begin();
    for (std::size_t looks = 0; looks < few; ++looks) {
        if (in_filter == filter.subscribers.end() || in_own == own.end()) return nullptr;
        ++work_;
        if (in_own->filter == &filter) return const_cast<Subscription*>(&*in_own);
        if (in_filter->subscriber == in_own->subscriber)
            return const_cast<Subscription*>(&*in_filter);
        ++in_filter;
        ++in_own;
    }
    if (in_own == own.end()) return nullptr;  // it had few, and all of them were looked at
    const auto found = many_.find(SubscriptionKey{&filter, own.front().subscriber});
    return found == many_.end() ? nullptr : *found;
}

/// Counts a subscription that is in both lists now, and has it found in `many_` if its subscriber
/// has more than a few.
void Router::enter(SubscriptionList& own, Subscription& added) {
    ++subscriptions_;
    std::size_t looks = 0;
    for (auto next = own.begin(); next != own.end(); ++next)
        if (++looks > few + 1) break;
    if (looks <= few) return;
    if (looks > few + 1) {
        many_.insert(&added);
        return;
    }
    for (Subscription& each : own) many_.insert(&each);  // it has just become more
}

void Router::remove(SubscriptionList& own, Subscription& subscription) {
    Filter& filter = *subscription.filter;
    ++work_;
    if (!many_.empty()) many_.erase(&subscription);
    --subscriptions_;
    own.erase(own.iterator_to(subscription));
    filter.subscribers.erase(filter.subscribers.iterator_to(subscription));
    delete &subscription;
    if (filter.subscribers.empty()) drop(filter);
}

Filter& Router::find_or_create(std::string_view text) {
    const HashedText hashed(text);
    if (const auto found = filters_.find(hashed); found != filters_.end()) return **found;
    Filter* filter = make<Filter>(text);
    filter->hash = half_of(hashed.hash);
    filters_.insert(filter);
    filter->table = interest_.add(text);
    if (has_wildcard(text)) add_to_tree(*filter);
    return *filter;
}

void Router::drop(Filter& filter) {
    if (has_wildcard(filter.text())) remove_from_tree(filter);
    interest_.remove(filter.text(), filter.table);
    filters_.erase(&filter);
    destroy(&filter);
}

void Router::add_to_tree(Filter& filter) {
    Level* level = tree_.get();
    TopicLevels names(filter.text());
    std::string_view name;
    while (names.next(name) && name != "#") {
        ++work_;
        Level* next = any_or_below(*level, name);
        level = next ? next : make_below(*level, name);
    }
    (name == "#" ? level->rest : level->here) = &filter;
}

void Router::remove_from_tree(Filter& filter) {
    Level* level = tree_.get();
    TopicLevels names(filter.text());
    std::string_view name;
    while (names.next(name) && name != "#") {
        ++work_;
        level = any_or_below(*level, name);
    }
    (name == "#" ? level->rest : level->here) = nullptr;

    // Delete the levels upwards that have become empty.
    while (level->empty() && level->parent) {
        Level& parent = *level->parent;
        if (level == parent.any)
            parent.any = nullptr;
        else
            --parent.named;
        levels_.erase(level);
        destroy(level);
        level = &parent;
    }
}

Router::Level* Router::below(const Step& step) const {
    const auto found = levels_.find(step);
    return found != levels_.end() ? *found : nullptr;
}

Router::Level* Router::any_or_below(const Level& level, std::string_view name) const {
    return name == "+" ? level.any : below({level, name});
}

Router::Level* Router::make_below(Level& parent, std::string_view name) {
    auto* level = make<Level>(name);
    level->parent = &parent;
    level->name_hash = keyed_hash(name);
    levels_.insert(level);
    if (name == "+")
        parent.any = level;
    else
        ++parent.named;
    return level;
}

void Router::find_filters(const HashedText& topic) {
    thread_.assert_here();
    matched_.clear();
    if (const auto exact = filters_.find(topic); exact != filters_.end())
        matched_.push_back(*exact);
    if (!tree_->empty()) find_in_tree(topic.text);
}

void Router::find_in_tree(std::string_view topic) {
    levels_here_.assign(1, tree_.get());
    bool wild = !hidden_from_leading_wildcard(topic);
    TopicLevels names(topic);
    for (std::string_view name; !levels_here_.empty() && names.next(name); wild = true) {
        const auto name_hash = keyed_hash(name);  // once, however many levels it is looked up below
        levels_below_.clear();
        for (const Level* level : levels_here_) {
            ++work_;
            if (level->rest && wild) matched_.push_back(level->rest);
            if (level->any && wild) levels_below_.push_back(level->any);
            if (level->named == 0) continue;
            if (const Level* next = below({*level, name, name_hash})) levels_below_.push_back(next);
        }
        levels_here_.swap(levels_below_);
    }
    for (const Level* level : levels_here_) {
        if (level->here) matched_.push_back(level->here);
        if (level->rest) matched_.push_back(level->rest);  // "sport/#" selects "sport" too
    }
}

/// True if a no-local subscription of the publisher was left out.
bool Router::merge_matches(const Subscriber* publisher) {
    merged_.clear();
    bool declined = false;
    const auto add = [this](const Match& match) { merged_.push_back(match); };
    for (Filter* filter : matched_) declined |= visit_one(*filter, publisher, add);
    if (merged_.empty()) return declined;

    std::sort(merged_.begin(), merged_.end(),
              [](const Match& a, const Match& b) { return a.subscriber < b.subscriber; });
    auto last = merged_.begin();
    for (auto next = last + 1; next < merged_.end(); ++next) {
        if (next->subscriber != last->subscriber) {
            if (++last != next) *last = std::move(*next);
            continue;
        }
        last->qos = std::max(last->qos, next->qos);
        last->retain_as_published |= next->retain_as_published;
        last->identifiers.insert(last->identifiers.end(), next->identifiers.begin(),
                                 next->identifiers.end());
    }
    merged_.erase(last + 1, merged_.end());
    return declined;
}

}  // namespace pulsegate
