#include "server/routing/router.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "protocol/topic.h"
#include "server/message.h"

namespace pulsegate {

/// One level of the wildcard tree, with its name behind it in the same allocation. `here` is the
/// filter that ends at this level, `rest` the one that goes on with `#`. The levels below are found
/// in `levels_`, and `+` without a search.
struct Router::Level {
    Level* parent = nullptr;
    Level* any = nullptr;  ///< `+`
    Filter* here = nullptr;
    Filter* rest = nullptr;
    std::uint32_t named = 0;  ///< how many are below, without `any`
    std::uint16_t size;

    std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), size}; }
    bool empty() const { return named == 0 && !any && !here && !rest; }
};

std::size_t Router::Hash::operator()(std::string_view text) const {
    return boost::hash<std::string_view>()(text);
}
std::size_t Router::Hash::operator()(const Filter* filter) const { return (*this)(filter->text()); }
bool Router::Equal::operator()(std::string_view text, const Filter* filter) const {
    return filter->text() == text;
}
bool Router::Equal::operator()(const Filter* filter, std::string_view text) const {
    return filter->text() == text;
}

std::size_t Router::Hash::operator()(const Step& step) const {
    // Nobody outside knows where a level lies, so nobody can send names that collide below it.
    auto hash = reinterpret_cast<std::size_t>(step.parent);
    boost::hash_range(hash, step.name.begin(), step.name.end());
    return hash;
}
std::size_t Router::Hash::operator()(const Level* level) const {
    return (*this)(Step{level->parent, level->name()});
}
bool Router::Equal::operator()(const Step& step, const Level* level) const {
    return level->parent == step.parent && level->name() == step.name;
}
bool Router::Equal::operator()(const Level* level, const Step& step) const {
    return (*this)(step, level);
}

namespace {

/// A filter or a level, with its text behind it.
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

/// Splits the first level off `rest`; false when that was the last one.
bool split(std::string_view& level, std::string_view& rest) {
    const auto slash = rest.find('/');
    level = rest.substr(0, slash);
    if (slash == std::string_view::npos) return false;
    rest.remove_prefix(slash + 1);
    return true;
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
    Filter& filter = find_or_create(text);
    Subscription* subscription = find(filter, own);
    const bool is_new = !subscription;
    if (is_new) {
        subscription = new Subscription;
        subscription->filter = &filter;
        subscription->subscriber = &subscriber;
        filter.subscribers.push_back(*subscription);
        own.push_back(*subscription);
        ++subscriptions_;
    }
    subscription->options = options;
    subscription->identifier = identifier;
    return is_new;
}

bool Router::subscribed(SubscriptionList& own, std::string_view text) const {
    const auto filter = filters_.find(text);
    return filter != filters_.end() && find(**filter, own);
}

bool Router::unsubscribe(SubscriptionList& own, std::string_view text) {
    const auto filter = filters_.find(text);
    if (filter == filters_.end()) return false;
    Subscription* subscription = find(**filter, own);
    if (!subscription) return false;
    remove(own, *subscription);
    return true;
}

void Router::unsubscribe_all(SubscriptionList& own) {
    while (!own.empty()) remove(own, own.front());
}

Subscription* Router::find(Filter& filter, SubscriptionList& own) const {
    // The room may be large, and so may the subscriber's list: whichever ends first decides.
    auto in_room = filter.subscribers.begin();
    auto in_own = own.begin();
    while (in_room != filter.subscribers.end() && in_own != own.end()) {
        ++work_;
        if (in_own->filter == &filter) return &*in_own;
        if (in_room->subscriber == in_own->subscriber) return &*in_room;
        ++in_room;
        ++in_own;
    }
    return nullptr;
}

void Router::remove(SubscriptionList& own, Subscription& subscription) {
    Filter& filter = *subscription.filter;
    own.erase(own.iterator_to(subscription));
    filter.subscribers.erase(filter.subscribers.iterator_to(subscription));
    delete &subscription;
    --subscriptions_;
    if (filter.subscribers.empty()) drop(filter);
}

Filter& Router::find_or_create(std::string_view text) {
    if (const auto found = filters_.find(text); found != filters_.end()) return **found;
    Filter* filter = make<Filter>(text);
    filters_.insert(filter);
    interest_.add(text);
    if (has_wildcard(text)) add_to_tree(*filter);
    return *filter;
}

void Router::drop(Filter& filter) {
    if (has_wildcard(filter.text())) remove_from_tree(filter);
    interest_.remove(filter.text());
    filters_.erase(&filter);
    destroy(&filter);
}

void Router::add_to_tree(Filter& filter) {
    Level* level = tree_.get();
    TopicLevels names(filter.text());
    std::string_view name;
    while (names.next(name) && name != "#") {
        Level* next = below(*level, name);
        level = next ? next : make_below(*level, name);
    }
    (name == "#" ? level->rest : level->here) = &filter;
}

void Router::remove_from_tree(Filter& filter) {
    Level* level = tree_.get();
    TopicLevels names(filter.text());
    std::string_view name;
    while (names.next(name) && name != "#") level = below(*level, name);
    (name == "#" ? level->rest : level->here) = nullptr;

    // Back up through the levels that nothing needs any more.
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

Router::Level* Router::below(const Level& level, std::string_view name) const {
    if (name == "+") return level.any;
    if (level.named == 0) return nullptr;
    const auto found = levels_.find(Step{&level, name});
    return found != levels_.end() ? *found : nullptr;
}

Router::Level* Router::make_below(Level& parent, std::string_view name) {
    auto* level = make<Level>(name);
    level->parent = &parent;
    levels_.insert(level);
    if (name == "+")
        parent.any = level;
    else
        ++parent.named;
    return level;
}

void Router::find_filters(std::string_view topic) {
    matched_.clear();
    if (const auto exact = filters_.find(topic); exact != filters_.end())
        matched_.push_back(*exact);
    if (!tree_->empty()) find_in_tree(*tree_, topic, true);
}

void Router::find_in_tree(const Level& level, std::string_view topic, bool first) {
    ++work_;
    // MQTT 5.0, 4.7.2: a wildcard in front does not select topics that begin with `$`. Presence is
    // the server's own as well: who listens to "#" did not ask who comes and goes.
    const bool wild = !(first && reserved_topic(topic));
    if (level.rest && wild) matched_.push_back(level.rest);

    std::string_view part;
    std::string_view rest = topic;
    const bool more = split(part, rest);
    const auto descend = [&](const Level& next) {
        if (more) return find_in_tree(next, rest, false);
        if (next.here) matched_.push_back(next.here);
        if (next.rest) matched_.push_back(next.rest);  // "sport/#" selects "sport" too
    };
    if (const Level* next = below(level, part)) descend(*next);
    if (level.any && wild) descend(*level.any);
}

/// True if the publisher declined one.
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
