#include "server/session/state/session_state.h"

#include "protocol/topic.h"

namespace pulsegate {

bool SessionState::subscribe(Router& router, Subscriber& self, std::string_view filter,
                             SubscribeOptions options, std::uint32_t identifier) {
    const bool is_new = router.subscribe(self, subscriptions_, filter, options, identifier);
    if (!is_new) return false;
    ++subscription_count_;
    if (!shared_filter(filter)) return true;
    ++shared_count_;
    note_membership();
    return true;
}

bool SessionState::unsubscribe(Router& router, std::string_view filter) {
    if (!router.unsubscribe(subscriptions_, filter)) return false;
    --subscription_count_;
    if (shared_filter(filter)) --shared_count_;
    return true;
}

void SessionState::unsubscribe_all(Router& router) {
    router.unsubscribe_all(subscriptions_);
    subscription_count_ = 0;
    shared_count_ = 0;
}

}  // namespace pulsegate
