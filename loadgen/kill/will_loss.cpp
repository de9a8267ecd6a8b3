#include "loadgen/kill/will_loss.h"

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

constexpr auto time_for_disk = 500ms;   // a login or its end is written down by then
constexpr auto time_for_will = 1500ms;  // after its delay: brokers count in seconds
constexpr auto clear_of_delay = 300ms;  // who is back as long before its end is in time

}  // namespace

void WillLoss::broker_ended(Time now, bool may_be_back) {
    const bool login_is_new = now < connection_.since + time_for_disk;
    const bool goodbye_is_new = goodbye_ && now < at_ + time_for_disk;
    open_ |= login_is_new || goodbye_is_new || may_be_back;
    delay_began_ = Time::max();
}

/// The delay begins anew, if the broker took the client for connected when it ended.
void WillLoss::broker_serves(Duration step, Time now) {
    put_forward_ |= step > Duration();
    put_back_ |= step < Duration();
    delay_began_ = now;
}

bool WillLoss::is_over(Time now) const {
    if (delay_began_ == Time::max()) return false;
    const Duration patience =
        goodbye_ ? Duration(time_for_disk) : connection_.delay + time_for_will;
    return now > delay_began_ + patience;
}

WillLoss::Promise WillLoss::promise(Time now) const {
    if (open_) return Promise::open;
    if (goodbye_) return Promise::must_not_come;
    if (connection_.delay == 0s) return Promise::comes;
    if (now < at_ + connection_.delay - clear_of_delay)
        return put_forward_ ? Promise::open : Promise::must_not_come;
    return is_over(now) && !put_back_ ? Promise::comes : Promise::open;
}

}  // namespace pulsegate::kill
