#include "server/routing/router.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "protocol/topic.h"

namespace pulsegate {

/// One level of the wildcard tree. `here` is the filter that ends at this level, `rest` the one
/// that goes on with `#`.
struct Router::Level {
    std::map<std::string, std::unique_ptr<Level>, std::less<>> children;
    std::unique_ptr<Level> any;  ///< `+`
    Filter* here = nullptr;
    Filter* rest = nullptr;

    bool empty() const { return children.empty() && !any && !here && !rest; }
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

namespace {

Filter* make_filter(std::string_view text) {
    void* memory = ::operator new(sizeof(Filter) + text.size());
    auto* filter =
        new (memory) Filter{.subscribers = {}, .size = static_cast<std::uint16_t>(text.size())};
    std::memcpy(reinterpret_cast<char*>(filter + 1), text.data(), text.size());
    return filter;
}

void free_filter(Filter* filter) {
    filter->~Filter();
    ::operator delete(filter);
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

Router::Router() : tree_(std::make_unique<Level>()) {}

Router::~Router() {
    for (Filter* filter : filters_) {
        filter->subscribers.clear_and_dispose(
            [](Subscription* subscription) { delete subscription; });
        free_filter(filter);
    }
}

bool Router::subscribe(Session& session, SubscriptionList& own, std::string_view text,
                       SubscribeOptions options, std::uint32_t identifier) {
    Filter& filter = find_or_create(text);
    Subscription* subscription = find(filter, own);
    const bool is_new = !subscription;
    if (is_new) {
        subscription = new Subscription;
        subscription->filter = &filter;
        subscription->session = &session;
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
    // The room may be large, and so may the session's list: whichever ends first decides.
    auto in_room = filter.subscribers.begin();
    auto in_own = own.begin();
    while (in_room != filter.subscribers.end() && in_own != own.end()) {
        ++work_;
        if (in_own->filter == &filter) return &*in_own;
        if (in_room->session == in_own->session) return &*in_room;
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
    Filter* filter = make_filter(text);
    filters_.insert(filter);
    if (!has_wildcard(text)) return *filter;

    Level* level = tree_.get();
    TopicLevels levels(text);
    for (std::string_view part; levels.next(part);) {
        if (part == "#") {
            level->rest = filter;
            return *filter;
        }
        auto& next = part == "+" ? level->any : level->children[std::string(part)];
        if (!next) next = std::make_unique<Level>();
        level = next.get();
    }
    level->here = filter;
    return *filter;
}

void Router::drop(Filter& filter) {
    if (has_wildcard(filter.text())) {
        // Down to the filter's level, then back up through those that nothing needs any more.
        const auto prune = [](auto& self, Level& level, std::string_view rest) -> void {
            std::string_view part;
            const bool more = split(part, rest);
            if (part == "#") {
                level.rest = nullptr;
                return;
            }
            const auto child = part == "+" ? level.children.end() : level.children.find(part);
            Level& next = part == "+" ? *level.any : *child->second;
            if (more)
                self(self, next, rest);
            else
                next.here = nullptr;
            if (!next.empty()) return;
            if (part == "+")
                level.any.reset();
            else
                level.children.erase(child);
        };
        prune(prune, *tree_, filter.text());
    }
    filters_.erase(&filter);
    free_filter(&filter);
}

void Router::find_filters(std::string_view topic) {
    matched_.clear();
    if (const auto exact = filters_.find(topic); exact != filters_.end())
        matched_.push_back(*exact);
    if (!tree_->empty()) find_in_tree(*tree_, topic, true);
}

void Router::find_in_tree(const Level& level, std::string_view topic, bool first) {
    ++work_;
    // MQTT 5.0, 4.7.2: a wildcard in front does not select topics that begin with `$`.
    const bool wild = !(first && topic.starts_with('$'));
    if (level.rest && wild) matched_.push_back(level.rest);

    std::string_view part;
    std::string_view rest = topic;
    const bool more = split(part, rest);
    const auto descend = [&](const Level& next) {
        if (more) return find_in_tree(next, rest, false);
        if (next.here) matched_.push_back(next.here);
        if (next.rest) matched_.push_back(next.rest);  // "sport/#" selects "sport" too
    };
    if (const auto child = level.children.find(part); child != level.children.end())
        descend(*child->second);
    if (level.any && wild) descend(*level.any);
}

void Router::merge_matches(const Session* publisher) {
    merged_.clear();
    const auto add = [this](const Match& match) { merged_.push_back(match); };
    for (Filter* filter : matched_) visit_one(*filter, publisher, add);
    if (merged_.empty()) return;

    std::sort(merged_.begin(), merged_.end(),
              [](const Match& a, const Match& b) { return a.session < b.session; });
    auto last = merged_.begin();
    for (auto next = last + 1; next < merged_.end(); ++next) {
        if (next->session != last->session) {
            if (++last != next) *last = std::move(*next);
            continue;
        }
        last->qos = std::max(last->qos, next->qos);
        last->retain_as_published |= next->retain_as_published;
        last->identifiers.insert(last->identifiers.end(), next->identifiers.begin(),
                                 next->identifiers.end());
    }
    merged_.erase(last + 1, merged_.end());
}

}  // namespace pulsegate
