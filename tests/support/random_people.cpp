#include "tests/support/random_people.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/crash_play.h"

namespace pulsegate {

namespace {

bool is_worker(CrashPerson who) {
    return who == CrashPerson::worker || who == CrashPerson::helper || who == CrashPerson::fay;
}

/// What was stored for this one must not end with the session.
bool may_begin_anew(CrashPerson who) { return who != CrashPerson::dan; }

const DurableClient::Terms& terms_of(CrashPerson who) {
    return crash_people()[static_cast<std::size_t>(who)];
}

}  // namespace

void RandomPeople::step(int number) {
    if (number == 0) return play_.arrive();
    const auto who = static_cast<CrashPerson>(below(crash_people().size()));
    if (terms_of(who).is_guest && !has_guests_) return;
    const unsigned kind = below(100);
    if (kind < 20) return play_.deliver_one();
    if (kind < 25) return play_.deliver_all();
    if (kind < 35) return play_.commit();
    if (kind < 40) return play_.settle();
    if (kind < 43) return play_.pass(1 + below(150));
    if (kind < 46) return play_.pass(1000 + below(1500));
    if (!play_.is_here(who)) {
        // Newcomers let some messages come first.
        if (terms_of(who).is_newcomer && number < steps_ / 2) return;
        const bool is_clean = may_begin_anew(who) && chance(15);
        return play_.connect(who, is_clean, chance(40));
    }
    request(who);
}

void RandomPeople::request(CrashPerson who) {
    switch (below(16)) {
        case 0: return play_.disconnect(who);
        case 1: return play_.lose(who);
        case 2:
            return chance(50) ? play_.connect(who, may_begin_anew(who) && chance(20), chance(40))
                              : void();
        case 3: return usual_subscription(who);
        case 4: return play_.become_slow(who);
        case 5: return play_.acknowledge(who);
        case 6: return play_.retain(who, QoS{static_cast<std::uint8_t>(below(3))}, chance(25));
        case 7: return play_.cancel(who, QoS{static_cast<std::uint8_t>(1 + below(2))});
        default: return publish(who);
    }
}

void RandomPeople::publish(CrashPerson who) {
    const auto qos = chance(10) ? QoS::at_most_once : QoS{static_cast<std::uint8_t>(1 + below(2))};
    const auto topic = fmt::format("t/{}", below(3));
    const unsigned kind = below(20);
    if (kind < 3) return play_.delay(who, topic, qos, below(4));
    if (kind < 7) return play_.publish(who, "s/0", qos);
    if (kind < 11) return play_.publish(who, DeliveryModel::room, qos);
    if (kind < 15)
        return play_.publish(who, "inbox/" + crash_people()[below(crash_people().size())].user,
                             qos);
    play_.publish(who, topic, qos);
}

void RandomPeople::usual_subscription(CrashPerson who) {
    std::vector<const UsualSubscription*> own;
    for (const UsualSubscription& each : usual_subscriptions())
        if (each.who == who) own.push_back(&each);
    if (own.empty()) return;
    const UsualSubscription& chosen = *own[below(own.size())];
    if (chance(is_worker(who) ? 85 : 60))
        play_.subscribe(who, chosen.filter, chosen.qos);
    else
        play_.unsubscribe(who, chosen.filter);
}

}  // namespace pulsegate
