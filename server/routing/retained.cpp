#include "server/routing/retained.h"

#include <iterator>

namespace pulsegate {

namespace {

/// How long a deletion is remembered: mail between shards takes milliseconds.
constexpr Millis deletion_counts = 10'000;

}  // namespace

bool Retained::keep(const MessageRef& message, Millis now) {
    const auto found = topics_.find(message->topic);
    const bool known = found != topics_.end();
    if (known && found->second->stamp > message->stamp) return true;

    const bool is_deletion = message->payload.empty();
    const bool replaces = known && !found->second->payload.empty();
    if (!is_deletion) {
        const auto freed = replaces ? found->second->cost() : 0;
        const bool fits = messages_ + !replaces <= limits_.messages &&
                          bytes_ - freed + message->cost() <= limits_.bytes;
        if (!fits) return false;
    }
    if (known) forget(found);
    if (is_deletion) {
        if (topics_.size() >= 2 * limits_.messages) return true;  // a flood of deletions
        const auto mark = std::make_shared<Message>(Message{.topic = message->topic,
                                                            .payload = {},
                                                            .properties = {},
                                                            .expires = now + deletion_counts,
                                                            .stamp = message->stamp});
        topics_.emplace(mark->topic, mark);
        return true;
    }
    count(*message, 1);
    topics_.emplace(message->topic, message);
    return true;
}

void Retained::count(const Message& message, int sign) {
    if (message.payload.empty()) return;
    messages_ += static_cast<std::size_t>(sign);
    bytes_ += static_cast<std::size_t>(sign) * message.cost();
}

Retained::Topics::iterator Retained::forget(Topics::iterator entry) {
    const MessageRef message = entry->second;  // the key is its topic
    count(*message, -1);
    return topics_.erase(entry);
}

void Retained::forget_some(Millis now) {
    auto next = topics_.lower_bound(sweep_);
    for (auto left = topics_.size() / 60 + 1; left > 0 && next != topics_.end(); --left)
        next = next->second->expired(now) ? forget(next) : std::next(next);
    sweep_ = next == topics_.end() ? std::string_view() : next->first;
}

}  // namespace pulsegate
