#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "protocol/topic.h"
#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/message.h"

namespace pulsegate {

/// The retained messages (MQTT 5.0, 3.3.1.3), one for each topic. Each shard has a Retained of its
/// own, with references to the same messages, so that a subscription is answered without other
/// shards. Two messages to one topic may reach shards in different order: the one with the later
/// stamp wins.
class Retained {
public:
    struct Limits {
        std::size_t messages;
        std::size_t bytes;
    };

    explicit Retained(Limits limits) : limits_(limits) {}

    /// Replaces the topic's message; a message without a payload deletes it. False if the limits
    /// leave no room: then the topic has no retained message.
    bool keep(const MessageRef& message, Millis now);

    /// Visits the messages that a filter selects, in the order of their topics, beginning after the
    /// topic `after` ("": at the beginning). `visit(const MessageRef&)` returns false to stop.
    /// Examines at most `most` topics, and subtracts those that it examined. Returns the topic to
    /// continue after, or "" at the end.
    template <class Visit>
    std::string visit(std::string_view filter, std::string_view after, std::size_t& most,
                      Millis now, Visit visit) const;

    /// False only if the filter selects no message. It is false for almost every filter of an
    /// inbox, and saves the search.
    [[nodiscard]] bool may_have(std::string_view filter) const {
        return messages_ > 0 && (has_wildcard(filter) || topics_.contains(filter));
    }

    /// Deletes expired messages among the next sixtieth of all.
    void forget_some(Millis now);

    std::size_t messages() const { return messages_; }
    std::size_t bytes() const { return bytes_; }

private:
    // The keys are the topics of the messages. A message without a payload marks a deletion; it is
    // kept until no older message can arrive from another shard.
    using Topics = std::map<std::string_view, MessageRef>;

    static bool live(const Message& message, Millis now) {
        return !message.payload.empty() && !message.expired(now);
    }
    void mark_deletion(const Message& message, Millis now);
    void count(const Message& message, int sign);
    Topics::iterator forget(Topics::iterator entry);

    const Limits limits_;
    Topics topics_;
    std::size_t messages_ = 0;
    std::size_t bytes_ = 0;
    std::size_t deletion_bytes_ = 0;  ///< of the deletion marks; not in `bytes_`
    std::string sweep_;               ///< the topic where `forget_some` continues
    [[no_unique_address]] OwnerThread thread_;
};

template <class Visit>
std::string Retained::visit(std::string_view filter, std::string_view after, std::size_t& most,
                            Millis now, Visit visit) const {
    thread_.assert_here();
    if (!has_wildcard(filter)) {
        const auto found = topics_.find(filter);
        if (found != topics_.end() && live(*found->second, now)) visit(found->second);
        return {};
    }
    // All topics that the filter selects have the same text before the first wildcard; but "a/#"
    // selects "a" as well, which sorts before "a/...".
    auto beginning = filter.substr(0, filter.find_first_of("+#"));
    if (filter.size() > 2 && filter.size() - beginning.size() == 1 && filter.back() == '#')
        beginning.remove_suffix(1);
    auto next = after.empty() ? topics_.lower_bound(beginning) : topics_.upper_bound(after);
    for (; next != topics_.end() && next->first.starts_with(beginning); ++next) {
        const auto& [topic, message] = *next;
        const bool goes_on =
            !live(*message, now) || !topic_matches(filter, topic) || visit(message);
        --most;
        if (!goes_on || most == 0) return std::string(topic);
    }
    return {};
}

}  // namespace pulsegate
