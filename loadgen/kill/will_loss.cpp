#include "loadgen/kill/will_loss.h"

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

// A client that is back this long before the end of a delay is in time.
constexpr auto clear_of_delay = 300ms;

}  // namespace

Duration WillLoss::time_for_disk() const { return 500ms * connection_.slowness; }
Duration WillLoss::time_for_will() const { return 1500ms * connection_.slowness; }

void WillLoss::broker_ended(BrokerEnd how, Time now, bool may_be_back) {
    awaited_ = how == BrokerEnd::kill ? awaited_after_kill(now) : Awaited::no;
    const bool login_is_new = now < connection_.since + time_for_disk();
    const bool goodbye_is_new = goodbye_ && now < at_ + time_for_disk();
    open_ |= login_is_new || goodbye_is_new || may_be_back;
    delay_began_ = Time::max();
}

WillLoss::Awaited WillLoss::awaited_after_kill(Time now) const {
    if (goodbye_) return Awaited::no;
    if (now == at_) return Awaited::yes;
    if (now < at_ + time_for_disk()) return Awaited::perhaps;
    if (awaited_ == Awaited::no || delay_began_ == Time::max()) return awaited_;
    if (now + clear_of_delay < started_ + connection_.limit) return awaited_;
    const bool is_over = now > delay_began_ + time_for_will() + time_for_disk();
    return is_over ? Awaited::no : Awaited::perhaps;
}

/// The will's delay begins anew when the broker serves again. If the broker counts the client as
/// connected after a kill, the delay begins when the limit of silence has passed.
void WillLoss::broker_serves(const BrokerStart& start, Time now) {
    put_forward_ |= start.step > Duration();
    put_back_ |= start.step < Duration();
    started_ = start.started;
    delay_began_ = now;
    if (is_awaited()) delay_began_ += connection_.limit + start.time_to_notice;
}

std::optional<Time> WillLoss::not_before() const {
    if (awaited_ != Awaited::yes) return std::nullopt;
    return started_ + connection_.limit + connection_.delay;
}

bool WillLoss::is_over(Time now) const {
    if (delay_began_ == Time::max()) return false;
    const Duration patience = goodbye_ ? time_for_disk() : connection_.delay + time_for_will();
    return now > delay_began_ + patience;
}

WillLoss::Promise WillLoss::promise(Time now, Duration own_delay) const {
    if (open_) return Promise::open;
    if (goodbye_) return Promise::must_not_come;
    if (const auto earliest = not_before(); earliest && now + clear_of_delay < *earliest)
        return Promise::must_not_come;
    const bool is_surely_over = is_over(now - own_delay);
    if (awaited_ != Awaited::no && !is_surely_over) return Promise::open;
    if (connection_.delay == 0s) return Promise::comes;
    if (now < at_ + connection_.delay - clear_of_delay)
        return put_forward_ ? Promise::open : Promise::must_not_come;
    return is_surely_over && !put_back_ ? Promise::comes : Promise::open;
}

}  // namespace pulsegate::kill
