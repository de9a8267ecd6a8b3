#include "server/routing/retained.h"

#include <algorithm>
#include <vector>

namespace pulsegate {

namespace {

/// How long deletions are kept, in milliseconds: messages between shards take much less.
constexpr Millis deletion_counts = 10'000;

/// The end of a message as work of the store, which must find and delete the pages of its topic.
std::size_t work_of_end(const Message& message) { return 1 + message.topic.size() / 1024; }

}  // namespace

bool Retained::fits(Message& message, Millis now) {
    thread_.assert_here();
    // One that has expired may be of another user, and not help; more than these go in a tick.
    constexpr int most_forgotten = 1000;
    for (int left = most_forgotten; left > 0; --left) {
        if (take_room(message)) return true;
        if (expiries_.empty() || !has_expired(expiries_.begin()->expires, now)) return false;
        forget_expired(now, 1);
    }
    return take_room(message);
}

/// A deletion needs none, and makes some at once.
bool Retained::take_room(Message& message) {
    const auto present = topics_.find(message.topic);
    const bool is_there = present != topics_.end();
    if (message.payload.empty()) {
        if (is_there) give_back(*present->second, message.stamp);
        return true;
    }
    if (is_there && present->second->stamp > message.stamp) return true;
    message.seat = seats_->take(is_there ? present->second->seat : nullptr, message, limits_);
    return message.seat != nullptr;
}

void Retained::give_back(const Message& message, std::uint64_t stamp) {
    if (message.seat) message.seat->give_back(stamp);
}

void Retained::keep(const MessageRef& message, Millis now) {
    thread_.assert_here();
    const auto found = topics_.find(message->topic);
    const bool known = found != topics_.end();
    if (known && found->second->stamp > message->stamp) return;

    if (known) forget(found);
    // A message that does not fit deletes the topic's old one, because that is outdated.
    if (message->payload.empty() || message->not_kept) return mark_deletion(*message, now);
    add(message);
}

void Retained::add(const MessageRef& message) {
    count(*message, 1);
    const auto entry = topics_.emplace(message->topic, message).first;
    if (message->expires != 0) expiries_.insert({message->expires, entry});
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
    add(mark);
}

void Retained::count(const Message& message, int sign) {
    const bool is_deletion = message.payload.empty();
    (is_deletion ? deletion_bytes_ : bytes_) += static_cast<std::size_t>(sign) * message.cost();
    if (is_deletion) return;
    messages_ += static_cast<std::size_t>(sign);
}

/// The least text behind `topic`, which the filter does not select, that may begin a topic which it
/// selects; nothing if there is none. Topics are in the order of their bytes: those below one level
/// stand together, but "a!" stands between "a" and "a/b".
std::optional<std::string> Retained::candidate_after(std::string_view topic,
                                                     std::string_view filter) {
    constexpr char behind_slash = '/' + 1;
    const std::string next = std::string(topic) + '\0';
    std::size_t level = 0;  // where it begins in the topic
    for (std::string_view names = filter;;) {
        const auto slash = names.find('/');
        const auto name = names.substr(0, slash);
        const auto end = std::min(topic.find('/', level), topic.size());
        if (name == "#") return next;  // only a leading wildcard selects not all below
        const auto here = topic.substr(level, end - level);
        if (name != "+" && name != here) {
            std::string wanted(topic.substr(0, level));
            wanted += name;
            if (topic < wanted) return wanted;
            if (slash != names.npos && topic < wanted + '/') return wanted + '/';
            if (level == 0) return std::nullopt;
            return std::string(topic.substr(0, level - 1)) + behind_slash;
        }
        if (end == topic.size()) return next;  // it is too short,
        if (slash == names.npos)
            return std::string(topic.substr(0, end)) + behind_slash;  // or long
        names.remove_prefix(slash + 1);
        level = end + 1;
    }
}

void Retained::forget(Topics::iterator entry) {
    const MessageRef message = entry->second;  // the key is its topic
    count(*message, -1);
    if (message->expires != 0) expiries_.erase({message->expires, entry});
    topics_.erase(entry);
}

void Retained::erase(Erasure& erasure, Millis now,
                     const std::function<void(std::string_view)>& erased) {
    thread_.assert_here();
    constexpr std::size_t page = 2000;
    std::size_t left = page;
    std::vector<MessageRef> found;
    std::size_t work = 0;
    erasure.after = visit(erasure.filter, erasure.after, left, now, [&](const MessageRef& message) {
        if (erasure.sender && message->sender != *erasure.sender) return true;
        found.push_back(message);
        work += work_of_end(*message);
        return work < page;
    });
    erasure.done = erasure.after.empty();
    for (const MessageRef& message : found) {
        if (message->stamp > erasure.stamp) continue;
        if (erased) erased(message->topic);
        give_back(*message, erasure.stamp);
        forget(topics_.find(message->topic));
        Message deletion{.topic = message->topic, .payload = {}, .properties = {}};
        deletion.stamp = erasure.stamp;
        mark_deletion(deletion, now);
        ++erasure.erased;
    }
}

void Retained::forget_some(Millis now) {
    thread_.assert_here();
    forget_expired(now, topics_.size() / 60 + 1000);
}

void Retained::forget_expired(Millis now, std::size_t most) {
    for (std::size_t work = 0; work < most && !expiries_.empty();) {
        const auto [expires, entry] = *expiries_.begin();
        if (!has_expired(expires, now)) return;
        const MessageRef message = entry->second;
        work += work_of_end(*message);
        give_back(*message, message->stamp);
        forget(entry);
        if (expired_ && !message->payload.empty()) expired_(*message);
    }
}

}  // namespace pulsegate
