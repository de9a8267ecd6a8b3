#include "server/routing/retained.h"

#include <iterator>

namespace pulsegate {

namespace {

/// How long deletions are kept, in milliseconds: messages between shards take much less.
constexpr Millis deletion_counts = 10'000;

}  // namespace

bool Retained::keep(const MessageRef& message, Millis now) {
    thread_.assert_here();
    const auto found = topics_.find(message->topic);
    const bool known = found != topics_.end();
    if (known && found->second->stamp > message->stamp) return true;

    if (known) forget(found);
    const bool is_deletion = message->payload.empty();
    const bool fits =
        messages_ + 1 <= limits_.messages && bytes_ + message->cost() <= limits_.bytes;
    if (is_deletion || !fits) {
        // A message that does not fit deletes the topic's old one, because that is outdated.
        mark_deletion(*message, now);
        return is_deletion;
    }
    count(*message, 1);
    topics_.emplace(message->topic, message);
    return true;
}

void Retained::mark_deletion(const Message& message, Millis now) {
    const auto mark = std::make_shared<Message>(Message{.topic = message.topic,
                                                        .payload = {},
                                                        .properties = {},
                                                        .expires = now + deletion_counts,
                                                        .stamp = message.stamp});
    // At the limits deletions are not kept, so that they can't fill the memory.
    if (topics_.size() >= 2 * limits_.messages ||
        deletion_bytes_ + mark->cost() > limits_.bytes / 4)
        return;
    count(*mark, 1);
    topics_.emplace(mark->topic, mark);
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
    thread_.assert_here();
    auto next = topics_.lower_bound(sweep_);
    for (auto left = topics_.size() / 60 + 1; left > 0 && next != topics_.end(); --left)
        next = next->second->expired(now) ? forget(next) : std::next(next);
    sweep_ = next == topics_.end() ? std::string_view() : next->first;
}

}  // namespace pulsegate
