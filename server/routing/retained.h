#pragma once

#include <boost/container/set.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/topic.h"
#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/message/message.h"
#include "server/routing/retained_seats.h"

namespace pulsegate {

/// The retained messages (MQTT 5.0, 3.3.1.3), one for each topic. Each shard has its own Retained
/// with references to the same messages, so that it can answer a subscription without other shards.
/// Two messages to one topic may reach shards in different order: the one with the later stamp
/// wins. Only the publisher's shard checks whether there is room, for all shards together, so that
/// all shards keep the same messages.
class Retained {
public:
    using Limits = RetainedSeats::Limits;

    /// `seats` are shared by all shards.
    explicit Retained(const Limits& limits,
                      std::shared_ptr<RetainedSeats> seats = std::make_shared<RetainedSeats>())
        : seats_(std::move(seats)), limits_(limits) {}

    /// Applies other limits from now on. Messages beyond them stay.
    void use(const Limits& limits) { limits_ = limits; }

    /// `expired` is called for each message that is removed because it has expired.
    using Expired = std::function<void(const Message&)>;
    void tell_expired(Expired expired) { expired_ = std::move(expired); }

    /// Takes room for this message, in place of the topic's present one, if the limits allow it. If
    /// not, expired messages are removed first.
    [[nodiscard]] bool fits(Message& message, Millis now);

    /// The cost of the topic's message; 0: it has none.
    [[nodiscard]] std::size_t cost_of(std::string_view topic) const {
        const auto found = topics_.find(topic);
        const bool has_one = found != topics_.end() && !found->second->payload.empty();
        return has_one ? found->second->cost() : 0;
    }

    /// Replaces the topic's message. A message without a payload, or that is `not_kept`, deletes
    /// it.
    void keep(const MessageRef& message, Millis now);

    /// Visits the messages that match a filter, in the order of their topics, after the topic
    /// `after` ("": from the beginning). `visit(const MessageRef&)` returns false to stop. Examines
    /// at most `most` topics, and subtracts the number of examined topics from it. Skips topics
    /// below a level that does not match. Returns the topic to continue after, or "" at the end.
    template <class Visit>
    std::string visit(std::string_view filter, std::string_view after, std::size_t& most,
                      Millis now, Visit visit) const;

    /// False only if no message matches the filter. It is false for almost every filter of an
    /// inbox, and saves the search.
    [[nodiscard]] bool may_have(std::string_view filter) const {
        return messages_ > 0 && (has_wildcard(filter) || topics_.contains(filter));
    }

    /// The messages that `erase` deletes, and its progress.
    struct Erasure {
        std::string filter;
        std::optional<std::uint64_t> sender;  ///< Message::sender; nothing: of all users
        std::uint64_t stamp;                  ///< later messages stay
        std::string after{};                  ///< the last topic that was examined
        std::size_t erased = 0;
        bool done = false;
    };

    /// Deletes a page of messages, and calls `erased` with the topic of each. Call it until `done`.
    void erase(Erasure& erasure, Millis now,
               const std::function<void(std::string_view)>& erased = {});

    /// Call it once a second: removes expired messages, at most slightly more than a sixtieth of
    /// all messages.
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
    bool take_room(Message& message);
    static void give_back(const Message& message, std::uint64_t stamp);
    void forget_expired(Millis now, std::size_t most);
    void add(const MessageRef& message);
    void mark_deletion(const Message& message, Millis now);
    void count(const Message& message, int sign);
    void forget(Topics::iterator entry);
    static std::optional<std::string> candidate_after(std::string_view topic,
                                                      std::string_view filter);

    const std::shared_ptr<RetainedSeats> seats_;
    Limits limits_;
    /// The messages that will expire, in the order of expiry.
    struct Expiry {
        Millis expires;
        Topics::iterator entry;

        bool operator<(const Expiry& other) const {
            if (expires != other.expires) return expires < other.expires;
            return std::less<>()(&*entry, &*other.entry);
        }
    };

    Topics topics_;
    boost::container::set<Expiry> expiries_;
    Expired expired_;
    std::size_t messages_ = 0;
    std::size_t bytes_ = 0;
    std::size_t deletion_bytes_ = 0;  ///< bytes of the deletion marks; not in `bytes_`
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
    // All topics that match the filter have the same text before the first wildcard. But "a/#" also
    // matches "a", which sorts before "a/...".
    auto beginning = filter.substr(0, filter.find_first_of("+#"));
    if (filter.size() > 2 && filter.size() - beginning.size() == 1 && filter.back() == '#')
        beginning.remove_suffix(1);
    auto next = after.empty() ? topics_.lower_bound(beginning) : topics_.upper_bound(after);
    while (next != topics_.end() && next->first.starts_with(beginning)) {
        const auto& [topic, message] = *next;
        const bool selected = topic_matches(filter, topic);
        const bool goes_on = !selected || !live(*message, now) || visit(message);
        --most;
        if (!goes_on || most == 0) return std::string(topic);
        if (selected) {
            ++next;
            continue;
        }
        const auto candidate = candidate_after(topic, filter);
        if (!candidate) return {};
        next = topics_.lower_bound(*candidate);
    }
    return {};
}

}  // namespace pulsegate
