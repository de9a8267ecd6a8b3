#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "server/routing/router.h"
#include "server/session/state/exchanges.h"
#include "server/session/state/stored_will.h"
#include "server/session/terms/ack_time.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The state that a session keeps while its client is connected or disconnected (MQTT 5.0, 4.1):
/// subscriptions, exchanges in progress, will and session expiry. It belongs to the shard's thread.
class SessionState {
public:
    // Subscriptions; the router has them, too.

    /// Returns true if the subscription is new.
    bool subscribe(Router& router, Subscriber& self, std::string_view filter,
                   SubscribeOptions options, std::uint32_t identifier);
    /// Returns false if there was no such subscription.
    bool unsubscribe(Router& router, std::string_view filter);
    void unsubscribe_all(Router& router);

    bool subscribed(const Router& router, std::string_view filter) const {
        return subscription(router, filter) != nullptr;
    }
    /// Null if there is none.
    const Subscription* subscription(const Router& router, std::string_view filter) const {
        return router.find(subscriptions_, filter);
    }
    const SubscriptionList& subscriptions() const { return subscriptions_; }
    std::uint32_t subscription_count() const { return subscription_count_; }
    static constexpr std::uint32_t most_subscriptions = (1u << 23) - 1;
    /// Has the session ever had a shared subscription?
    bool was_member() const { return was_member_; }
    void note_membership() { was_member_ = true; }
    /// Number of shared subscriptions.
    std::uint16_t shared_count() const { return shared_count_; }
    static constexpr std::uint16_t most_shared = 65'535;

    Exchanges& exchanges() { return exchanges_; }
    const Exchanges& exchanges() const { return exchanges_; }

    void set_will(std::unique_ptr<StoredWill> will) { will_ = std::move(will); }
    std::unique_ptr<StoredWill> take_will() { return std::move(will_); }
    /// Null if there is no will.
    const StoredWill* will() const { return will_.get(); }

    /// Seconds for which the session is kept after a connection.
    void set_expiry(std::uint32_t seconds) { expiry_ = seconds; }
    std::uint32_t expiry() const { return expiry_; }

private:
    SubscriptionList subscriptions_;
    [[no_unique_address]] Exchanges exchanges_;  // the next members are in its padding
    std::uint16_t shared_count_ = 0;
    std::uint32_t expiry_ = 0;
    std::unique_ptr<StoredWill> will_;
    std::uint32_t subscription_count_ : 23 = 0;
    std::uint32_t was_member_ : 1 = false;

public:
    AckTime ack_time;   ///< of its client
    OwnerId owner = 0;  ///< in the store; 0: the session is not stored
};

}  // namespace pulsegate
