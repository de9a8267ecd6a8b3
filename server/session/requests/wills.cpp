#include "server/session/requests/wills.h"

#include <utility>

#include "server/base/clock.h"
#include "server/base/log.h"

namespace pulsegate {

void Wills::keep(Session& session, std::unique_ptr<StoredWill> will) {
    const bool had_one = session.state.will();
    if (will) will->is_stored = session.state.owner != 0;
    if (session.state.owner != 0 && will)
        journal_.add(PutWill{.owner = session.state.owner,
                             .delay = will->delay,
                             .message_expiry = will->message_expiry,
                             .flags = will_flags(will->message),
                             .message = std::make_shared<const Message>(will->message)});
    else if (session.state.owner != 0 && had_one)
        journal_.add(DropWill{session.state.owner});
    session.set_will(std::move(will));
}

void Wills::publish(Session& session, Millis now) {
    const auto will = session.take_will();
    if (!will) return;
    if (session.state.owner != 0) journal_.add(DropWill{session.state.owner});
    if (may_publish(session, *will)) {
        Message message = take_message(*will, now);
        if (will->is_stored && message.qos != QoS::at_most_once)
            return delayed_.publish_safely(std::move(message), will->message_expiry, session, now);
        fan_out_.publish(std::move(message), &session, now);
        return;
    }
    ++counters_.dropped_refused;
    log_limited(spdlog::level::warn,
                "{}: will to {} dropped: its login or the rules don't allow it any more",
                session.logged(), in_quotes(will->message.topic));
}

/// Checked when the will is published. Rules may have changed since the login, and a delayed will
/// may be published after its client's authorization has ended.
bool Wills::may_publish(const Session& session, const StoredWill& will) const {
    const bool delayed = will.delay > 0 && !session.link;
    if (delayed && will.authorized_until && *will.authorized_until < unix_now()) return false;
    const AccessRules* const rules = will.rules ? will.rules.get() : authorizations_.rules();
    const auto& topic = will.message.topic;
    if (!rooms_.admits(session.user.name, topic)) return false;
    return !rules || rules->may_publish({session.user.name, session.client}, topic);
}

}  // namespace pulsegate
