#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "protocol/topic.h"
#include "server/clock.h"
#include "server/message.h"

namespace pulsegate {

/// The retained messages (MQTT 5.0, 3.3.1.3), one for each topic. Every shard keeps them all, so
/// that a subscriber finds them at home; the shards share the messages. Two that are published at
/// the same time may reach shards in different order: their stamps say which one counts.
class Retained {
public:
    struct Limits {
        std::size_t messages;
        std::size_t bytes;
    };

    explicit Retained(Limits limits) : limits_(limits) {}

    /// Keeps the message instead of the topic's last; one without a payload deletes that. False if
    /// the limits leave no room: then the topic has none.
    bool keep(const MessageRef& message, Millis now);

    /// Visits the messages that a filter selects, in the order of their topics, beginning after the
    /// topic `after` ("": at the beginning). `visit(const MessageRef&)` says false to stop. Looks
    /// at `most` at the most and counts them down. Returns the topic to go on after, or "" when
    /// that was all.
    template <class Visit>
    std::string visit(std::string_view filter, std::string_view after, std::size_t& most,
                      Millis now, Visit visit) const;

    /// False only if the filter selects nothing: almost every inbox, so that nobody need look.
    bool may_have(std::string_view filter) const {
        return messages_ > 0 && (has_wildcard(filter) || topics_.contains(filter));
    }

    /// Forgets the expired ones, looking at a sixtieth of all.
    void forget_some(Millis now);

    std::size_t messages() const { return messages_; }
    std::size_t bytes() const { return bytes_; }

private:
    // The keys are the topics of the messages. A message without a payload marks a deletion, until
    // no older message can be on the way from another shard any more.
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
    std::size_t deletion_bytes_ = 0;  ///< of the marks, beside `bytes_`
    std::string sweep_;               ///< the topic that `forget_some` comes to next
};

template <class Visit>
std::string Retained::visit(std::string_view filter, std::string_view after, std::size_t& most,
                            Millis now, Visit visit) const {
    if (!has_wildcard(filter)) {
        const auto found = topics_.find(filter);
        if (found != topics_.end() && live(*found->second, now)) visit(found->second);
        return {};
    }
    // Everything up to the first wildcard is the same in all topics that the filter selects; only
    // "a/#" selects "a" as well, which stands before its children.
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
