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
        // A flood of them is not remembered: it must not fill the memory.
        const bool fits = topics_.size() < 2 * limits_.messages &&
                          deletion_bytes_ + message->cost() <= limits_.bytes / 4;
        if (!fits) return true;
        const auto mark = std::make_shared<Message>(Message{.topic = message->topic,
                                                            .payload = {},
                                                            .properties = {},
                                                            .expires = now + deletion_counts,
                                                            .stamp = message->stamp});
        count(*mark, 1);
        topics_.emplace(mark->topic, mark);
        return true;
    }
    count(*message, 1);
    topics_.emplace(message->topic, message);
    return true;
}

void Retained::count(const Message& message, int sign) {
    const bool is_deletion = message.payload.empty();
    (is_deletion ? deletion_bytes_ : bytes_) += static_cast<std::size_t>(sign) * message.cost();
    if (!is_deletion) messages_ += static_cast<std::size_t>(sign);
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
