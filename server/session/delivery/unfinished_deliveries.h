#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/packet.h"
#include "server/base/owner_thread.h"
#include "server/message/message.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// A recipient of a message on this shard.
struct Recipient {
    Session* session;
    QoS qos;
    bool retain;
    std::vector<std::uint32_t> identifiers;
};

/// The messages of one shard that some of their recipients do not have yet, in the order of
/// publishing. A message with very many recipients is delivered over several rounds of the loop.
/// Later messages wait, so that they do not overtake it. The recipients are the sessions that were
/// subscribed when the message arrived. It owns no session; it belongs to the shard's thread.
class UnfinishedDeliveries {
public:
    bool empty() const { return entries_.empty(); }
    std::size_t size() const { return entries_.size(); }
    /// How many recipients do the messages behind the first one have?
    std::size_t behind_first() const { return behind_first_; }
    /// The number of the message that was added last; they are numbered from 1.
    std::uint64_t last() const { return last_; }
    /// Is that message, or an earlier one, among them?
    bool has_any_upto(std::uint64_t number) const {
        return !empty() && entries_.front().number <= number;
    }

    /// Holds `part` until all recipients have the message. `told` is the last member for whom
    /// backends were told that the message waits; nothing: no such member is left.
    void add(MessageRef message, std::vector<Recipient> recipients, PartRef part,
             std::optional<std::string> told) {
        if (!empty()) behind_first_ += recipients.size();
        entries_.push_back(
            {++last_, std::move(message), std::move(recipients), std::move(part), std::move(told)});
    }

    /// The session has ended or starts from the beginning: it gets none of the messages that were
    /// added so far.
    void forget(const Session& session) {
        thread_.assert_here();
        if (!empty()) ended_[&session] = last_;
    }

    /// Calls `deliver(message, recipient, part)` for up to `most` recipients. After the last
    /// recipient of a message, it calls `tell(message, told, part)` once a round while members are
    /// left to tell about, and then `finish(message, part)`. These functions must not call `add` or
    /// `forget`.
    template <class Deliver, class Tell, class Finish>
    void advance(std::size_t most, Deliver deliver, Tell tell, Finish finish);

private:
    struct Entry {
        std::uint64_t number;
        MessageRef message;
        std::vector<Recipient> recipients;
        PartRef part;
        std::optional<std::string> told{};
        std::size_t next = 0;
    };

    bool has_ended(const Session* session, std::uint64_t number) const {
        if (ended_.empty()) return false;
        const auto found = ended_.find(session);
        return found != ended_.end() && number <= found->second;
    }

    std::deque<Entry> entries_;
    std::size_t behind_first_ = 0;
    /// The last message that was added before the session ended. A later session may have the same
    /// address.
    boost::unordered_flat_map<const Session*, std::uint64_t> ended_;
    std::uint64_t last_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

template <class Deliver, class Tell, class Finish>
void UnfinishedDeliveries::advance(std::size_t most, Deliver deliver, Tell tell, Finish finish) {
    thread_.assert_here();
    while (!empty()) {
        Entry& entry = entries_.front();
        for (; entry.next < entry.recipients.size(); ++entry.next) {
            if (most-- == 0) return;
            const Recipient& recipient = entry.recipients[entry.next];
            if (!has_ended(recipient.session, entry.number))
                deliver(entry.message, recipient, entry.part);
        }
        if (entry.told) tell(entry.message, entry.told, entry.part);
        if (entry.told) return;
        finish(entry.message, entry.part);
        entries_.pop_front();
        if (!empty()) behind_first_ -= entries_.front().recipients.size();
    }
    ended_.clear();
}

}  // namespace pulsegate
