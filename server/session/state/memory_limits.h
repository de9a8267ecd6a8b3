#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "server/session/durable/broker_host.h"
#include "server/session/state/session.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

/// A will or a retained message up to this size is kept even if memory is scarce, as long as
/// memory-budget is not exceeded. There are no more wills than sessions.
inline constexpr std::size_t small_message = 1024;

/// The limits of the data that clients and users may make the gateway keep besides messages:
/// subscriptions with their levels in the tree of filters, wills and topic aliases. It owns
/// nothing; it belongs to the shard's thread.
class MemoryLimits {
public:
    MemoryLimits(const BrokerSettings& settings, BrokerHost& host)
        : settings_(settings), host_(host), wills_(host.totals().wills) {}

    /// The reason why the client may not make the gateway keep `more` bytes; nothing if it may.
    std::optional<Refusal> objection(const Session& session, std::size_t more) const;

    /// The same for data that can wait until there is memory again.
    std::optional<Refusal> objection_if_scarce(const Session& session, std::size_t more) const;

    /// The same for a client that is not logged in yet, and its will; `known` is its existing
    /// session, or null. The client `resumes` that session, or starts clean.
    std::optional<Refusal> objection_to_will(const User& user, const Session* known, bool resumes,
                                             std::size_t more) const;

    /// The same for a new session that outlives its connection.
    std::optional<Refusal> objection_to_session(const User& user) const;

    /// May the gateway keep `more` bytes for a topic alias of its own? Such aliases only make
    /// packets smaller, so half of the limits is left for the client's own data.
    bool has_room_for_alias(const Session& session, std::size_t more) const;

    /// Does the stored data take too much room?
    bool is_store_full() const { return host_.is_store_full(); }
    bool is_scarce() const { return host_.memory() != MemoryState::plenty; }
    /// Is memory-budget used up, except for a reserve?
    bool used_up() const { return host_.memory() == MemoryState::used_up; }

private:
    const BrokerSettings& settings_;
    const BrokerHost& host_;
    const GatewaySum& wills_;
};

/// The approximate bytes of a subscription to this filter. A level of a filter with wildcards
/// counts more than its memory, because each message to a matching topic looks at it.
std::size_t cost_of_subscription(std::string_view filter);

}  // namespace pulsegate
